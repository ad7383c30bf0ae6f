//! Reads a statement far enough to find its placeholders, and to refuse what is not one statement.

use std::collections::BTreeSet;

/// Whose lexical rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    allow(dead_code, reason = "each driver names its own")
)]
pub(crate) enum Dialect {
    /// Dollar quotes, `E''` strings, nested comments.
    Postgres,
    /// Identifiers in brackets and backticks; `?`, `:name` and `@name` are placeholders, too.
    Sqlite,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The numbers of the placeholders `$1`, `$2`, …
    pub(crate) placeholders: BTreeSet<usize>,
    /// The first word, in upper case.
    pub(crate) verb: String,
}

/// Finds the placeholders of `sql`.
///
/// # Errors
///
/// What is wrong, in words: a quote that is not closed, a second statement, a placeholder of
/// another style.
pub(crate) fn scan(sql: &str, dialect: Dialect) -> Result<Scan, String> {
    let mut scanner = Scanner {
        text: sql,
        at: 0,
        dialect,
        found: Scan { placeholders: BTreeSet::new(), verb: String::new() },
        ended: false,
    };
    while let Some(next) = scanner.peek() {
        scanner.token(next)?;
    }
    Ok(scanner.found)
}

struct Scanner<'s> {
    text: &'s str,
    at: usize,
    dialect: Dialect,
    found: Scan,
    ended: bool,
}

impl<'s> Scanner<'s> {
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    fn token(&mut self, next: char) -> Result<(), String> {
        let postgres = self.dialect == Dialect::Postgres;
        if next.is_whitespace() {
            self.at += next.len_utf8();
            return Ok(());
        }
        if self.rest().starts_with("--") {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            return Ok(());
        }
        if self.rest().starts_with("/*") {
            return self.comment();
        }
        if self.ended {
            return Err("there is more than one statement; a tool runs one".into());
        }
        match next {
            ';' => {
                self.ended = true;
                self.at += 1;
                Ok(())
            }
            '\'' | '"' => self.quoted(next, false),
            '`' if !postgres => self.quoted('`', false),
            '[' if !postgres => self.past("]", "a `[` is not closed"),
            '$' => self.dollar(),
            '?' | ':' | '@' if !postgres => Err(format!(
                "`{next}` is a placeholder of another style; placeholders are `$1`, `$2`, …"
            )),
            _ if next.is_alphanumeric() || next == '_' => self.word(),
            _ => {
                self.at += next.len_utf8();
                Ok(())
            }
        }
    }

    /// An identifier, a keyword or a number; `E'…'` is a string in which backslashes escape.
    fn word(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let ends = |c: char| !(c.is_alphanumeric() || c == '_' || c == '$');
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += word.len();
        if self.found.verb.is_empty() {
            self.found.verb = word.to_uppercase();
        }
        let escapes = self.dialect == Dialect::Postgres && word.eq_ignore_ascii_case("e");
        if escapes && self.peek() == Some('\'') {
            return self.quoted('\'', true);
        }
        Ok(())
    }

    /// A placeholder, or in PostgreSQL a string between `$tag$` and `$tag$`.
    fn dollar(&mut self) -> Result<(), String> {
        let rest = &self.rest()[1..];
        let word =
            &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
        let numbered = word.starts_with(|c: char| c.is_ascii_digit());
        if self.dialect == Dialect::Postgres && !numbered && rest[word.len()..].starts_with('$') {
            let tag = &self.rest()[..word.len() + 2];
            self.at += tag.len();
            return self.past(tag, "a dollar quote is not closed");
        }
        let glued = self.dialect == Dialect::Sqlite && rest[word.len()..].starts_with("::");
        match word.parse::<usize>() {
            Ok(number) if (1..=PLACEHOLDERS_MAX).contains(&number) && !glued => {
                self.found.placeholders.insert(number);
                self.at += 1 + word.len();
                Ok(())
            }
            _ => Err(format!("`${word}` is no placeholder; placeholders are `$1`, `$2`, …")),
        }
    }

    fn quoted(&mut self, quote: char, escapes: bool) -> Result<(), String> {
        self.at += 1;
        while let Some(next) = self.peek() {
            self.at += next.len_utf8();
            if next == quote {
                if self.peek() != Some(quote) {
                    return Ok(());
                }
                self.at += 1;
            } else if escapes && next == '\\' {
                self.at += self.peek().map_or(0, char::len_utf8);
            }
        }
        Err(format!("a `{quote}` is not closed"))
    }

    fn comment(&mut self) -> Result<(), String> {
        let mut depth = 0;
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") && (depth == 0 || self.dialect == Dialect::Postgres) {
                depth += 1;
                self.at += 2;
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.at += 2;
            } else if let Some(next) = self.peek() {
                self.at += next.len_utf8();
            } else {
                return Err("a `/*` is not closed".into());
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn past(&mut self, end: &str, or_else: &str) -> Result<(), String> {
        let found = self.rest().find(end).ok_or(or_else)?;
        self.at += found + end.len();
        Ok(())
    }
}

/// PostgreSQL's protocol counts parameters in 16 bits; SQLite's default is 32,766.
const PLACEHOLDERS_MAX: usize = 32_766;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sql: &str, dialect: Dialect) -> Vec<usize> {
        scan(sql, dialect).unwrap().placeholders.into_iter().collect()
    }

    #[test]
    fn placeholders_are_found_in_code_only() {
        for dialect in [Dialect::Postgres, Dialect::Sqlite] {
            let sql = "select $2, '$3 ''$4', \"$5\", a$6 -- $7\n /* $8 */ from t where x = $10";
            assert_eq!(found(sql, dialect), [2, 10], "{dialect:?}");
            assert_eq!(found("select $1, $1;  -- done\n", dialect), [1]);
            assert_eq!(
                scan(" /* x */ with a as (select 1) select 2", dialect).unwrap().verb,
                "WITH"
            );
        }
        let sql = r"select E'\'$1', $$ $2 '$$, $a$ $3 $$ $a$, $4::int, b ? 'c' /* /* $5 */ $6 */";
        assert_eq!(found(sql, Dialect::Postgres), [4]);
        assert_eq!(found("select '\\', $1, [$2], `$3` /* /* */", Dialect::Sqlite), [1]);
    }

    #[test]
    fn what_is_not_one_statement_is_refused() {
        for (sql, rule) in [
            ("select 1; select 2", "more than one statement"),
            ("select 'x", "`'` is not closed"),
            ("select /* x", "`/*` is not closed"),
            ("select $0", "`$0` is no placeholder"),
            ("select $1a", "`$1a` is no placeholder"),
            ("select $x", "`$x` is no placeholder"),
            ("select $99999", "is no placeholder"),
        ] {
            for dialect in [Dialect::Postgres, Dialect::Sqlite] {
                let error = scan(sql, dialect).unwrap_err();
                assert!(error.contains(rule), "{dialect:?} {sql}: {error}");
            }
        }
        for sql in ["select ?", "select ?1", "select :a", "select @a", "select $1::int"] {
            assert!(scan(sql, Dialect::Sqlite).is_err(), "{sql}");
        }
        assert!(scan("select $$ x", Dialect::Postgres).unwrap_err().contains("dollar quote"));
    }
}
