//! A TOML file as it stands: tables whose keys are asked for one by one, each with its place.
//!
//! A key that nobody asks for is unknown, and the error names the nearest one that is. This is why
//! there is no serde in here: it stops at the first fault, and a file may have several.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::fault::{ConfigError, Faults, Place};

/// A table, or what is left of it.
#[derive(Clone, Debug)]
pub(super) struct Table<'t> {
    /// Itself.
    pub(super) place: Place,
    /// In the order of the file.
    nodes: Vec<Node<'t>>,
    known: Vec<&'static str>,
    /// Every key it had, for errors that come later.
    places: Vec<Place>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Node<'t> {
    name: String,
    pub(super) place: Place,
    value: DeValue<'t>,
}

/// A value that has been read.
#[derive(Clone, Debug)]
pub(super) struct Field<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// A kind of value.
pub(super) trait Read: Sized {
    const RULE: &'static str;
    const FIX: &'static str;
    fn read(value: &DeValue<'_>) -> Option<Self>;
}

/// Reads `text`, the content of `file`.
///
/// # Errors
///
/// Where it is no TOML. What could be guessed of the rest would only bring up faults that are none.
pub(super) fn parse<'t>(text: &'t str, file: &str) -> Result<Table<'t>, ConfigError> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut faults = Faults::new(file, text);
    for error in errors {
        // The error's own text repeats the line, which may hold a credential.
        let place = Place { at: error.span().map(|span| span.start), ..Place::file() };
        faults.add(&place, format!("is no TOML here: {}", error.message()), "");
    }
    faults.into_result()?;
    Ok(Table::new(Place::file(), root.into_inner()))
}

impl<'t> Table<'t> {
    fn new(place: Place, table: DeTable<'t>) -> Table<'t> {
        let mut nodes: Vec<_> =
            table.into_iter().map(|(name, value)| Node::new(&place.key, &name, value)).collect();
        nodes.sort_by_key(|node| node.place.at);
        let places = nodes.iter().map(|node| node.place.clone()).collect();
        Table { place, nodes, known: Vec::new(), places }
    }

    /// Has no error show the value of `key`: a credential may stand there.
    pub(super) fn hide(&mut self, key: &str) {
        let nodes = self.nodes.iter_mut().filter(|node| node.name == key);
        nodes.for_each(|node| node.place.shown = None);
    }

    /// The value of `key`, which may be left out.
    pub(super) fn take<T: Read>(
        &mut self,
        key: &'static str,
        faults: &mut Faults<'_>,
    ) -> Option<Field<T>> {
        self.node(key)?.read(faults)
    }

    /// The value of `key`, which must be there.
    pub(super) fn require<T: Read>(
        &mut self,
        key: &'static str,
        fix: &str,
        faults: &mut Faults<'_>,
    ) -> Option<Field<T>> {
        if let Some(node) = self.node(key) {
            return node.read(faults);
        }
        let missing =
            Place { key: format!("{}.{key}", self.place.key), at: self.place.at, shown: None };
        faults.add(&missing, "is missing", fix);
        None
    }

    /// The items of the list at `key`.
    pub(super) fn list<T: Read>(
        &mut self,
        key: &'static str,
        faults: &mut Faults<'_>,
    ) -> Option<Vec<Field<T>>> {
        let Node { place, value, .. } = self.node(key)?;
        let DeValue::Array(items) = value else {
            faults.add(&place, "must be a list", "write it as in `[1, 2]`");
            return None;
        };
        let items = items.into_iter().enumerate().map(|(at, item)| {
            let Range { start, end } = item.span();
            let place = Place {
                key: format!("{}[{at}]", place.key),
                at: Some(start),
                shown: place.shown.is_some().then_some(start..end),
            };
            Node { name: String::new(), place, value: item.into_inner() }
        });
        Some(items.filter_map(|item| item.read(faults)).collect())
    }

    /// The entries of the table at `key`, in the order of the file.
    pub(super) fn entries(
        &mut self,
        key: &'static str,
        faults: &mut Faults<'_>,
    ) -> Option<Vec<(String, Node<'t>)>> {
        let table = self.node(key)?.table(faults)?;
        self.places.extend(table.places.iter().cloned());
        let nodes = table.nodes.into_iter();
        Some(nodes.map(|node| (node.name.clone(), node)).collect())
    }

    /// The table at `key`.
    pub(super) fn table(
        &mut self,
        key: &'static str,
        faults: &mut Faults<'_>,
    ) -> Option<Table<'t>> {
        self.node(key)?.table(faults)
    }

    /// The node at `key`, whatever it is.
    pub(super) fn node(&mut self, key: &'static str) -> Option<Node<'t>> {
        self.known.push(key);
        self.remove(key)
    }

    /// Takes `key` out without making it known.
    pub(super) fn remove(&mut self, key: &str) -> Option<Node<'t>> {
        let at = self.nodes.iter().position(|node| node.name == key)?;
        Some(self.nodes.remove(at))
    }

    /// Whether `key` is there and has not been asked for.
    pub(super) fn has(&self, key: &str) -> bool {
        self.nodes.iter().any(|node| node.name == key)
    }

    /// What is left is nobody's business.
    pub(super) fn skip(&mut self) {
        self.nodes.clear();
    }

    /// Nobody asks any more: what is left is unknown.
    pub(super) fn finish(&mut self, faults: &mut Faults<'_>) {
        for node in self.nodes.drain(..) {
            let fix = match nearest(&node.name, &self.known) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("known here: {}", self.known.join(", ")),
            };
            faults.add(&node.place.secret(), "is no known key", fix);
        }
    }

    /// The place of `key`, given as in `headers.Accept`; its own if it has no such key.
    pub(super) fn place_of(&self, key: &str) -> Place {
        let full = format!("{}.{key}", self.place.key);
        let known = self.places.iter().find(|place| place.key == full);
        let at = known.and_then(|place| place.at).or(self.place.at);
        Place { key: if key.is_empty() { self.place.key.clone() } else { full }, at, shown: None }
    }
}

impl<'t> Node<'t> {
    fn new(parent: &str, name: &Spanned<impl AsRef<str>>, value: Spanned<DeValue<'t>>) -> Node<'t> {
        let text = name.get_ref().as_ref();
        let bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let quoted = if !text.is_empty() && text.chars().all(bare) {
            text.to_owned()
        } else {
            format!("{text:?}")
        };
        let key = if parent.is_empty() { quoted } else { format!("{parent}.{quoted}") };
        let span = value.span();
        let value = value.into_inner();
        let place =
            Place { key, at: Some(name.span().start), shown: (!value.is_table()).then_some(span) };
        Node { name: text.to_owned(), place, value }
    }

    pub(super) fn read<T: Read>(self, faults: &mut Faults<'_>) -> Option<Field<T>> {
        match T::read(&self.value) {
            Some(value) => Some(Field { value, place: self.place }),
            None => {
                faults.add(&self.place, T::RULE, T::FIX);
                None
            }
        }
    }

    pub(super) fn table(self, faults: &mut Faults<'_>) -> Option<Table<'t>> {
        match self.value {
            DeValue::Table(table) => Some(Table::new(self.place, table)),
            _ => {
                let fix = format!("write `[{}]` and its keys below", self.place.key);
                faults.add(&self.place, "must be a table", fix);
                None
            }
        }
    }

    /// The same node with a value that no error shows.
    pub(super) fn secret(mut self) -> Node<'t> {
        self.place = self.place.secret();
        self
    }

    pub(super) fn is_string(&self) -> bool {
        self.value.is_str()
    }
}

/// The known key that is most likely meant, if one is near.
pub(super) fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let far = (key.chars().count() / 3).max(1);
    let distance = |known: &&str| strsim::damerau_levenshtein(key, known);
    let nearest = known.iter().copied().min_by_key(distance)?;
    (distance(&nearest) <= far).then_some(nearest)
}

impl Read for String {
    const RULE: &'static str = "must be a string";
    const FIX: &'static str = "put it in quotes";

    fn read(value: &DeValue<'_>) -> Option<String> {
        value.as_str().map(str::to_owned)
    }
}

impl Read for bool {
    const RULE: &'static str = "must be true or false";
    const FIX: &'static str = "write it without quotes";

    fn read(value: &DeValue<'_>) -> Option<bool> {
        value.as_bool()
    }
}

fn integer<T: TryFrom<i64>>(number: &DeInteger<'_>) -> Option<T> {
    let number = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
    T::try_from(number).ok()
}

impl Read for u32 {
    const RULE: &'static str = "must be a whole number, 0 or more";
    const FIX: &'static str = "write it without quotes and fraction, as in `4`";

    fn read(value: &DeValue<'_>) -> Option<u32> {
        value.as_integer().and_then(integer)
    }
}

impl Read for u64 {
    const RULE: &'static str = u32::RULE;
    const FIX: &'static str = u32::FIX;

    fn read(value: &DeValue<'_>) -> Option<u64> {
        value.as_integer().and_then(integer)
    }
}

impl Read for f64 {
    const RULE: &'static str = "must be a number";
    const FIX: &'static str = "write it without quotes, as in `0.5`";

    fn read(value: &DeValue<'_>) -> Option<f64> {
        match value {
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => u32::read(value).map(f64::from),
        }
    }
}

impl Read for Duration {
    const RULE: &'static str = "must be a span of time with its unit, in quotes";
    const FIX: &'static str = "write it as in `\"50ms\"`, `\"29s\"` or `\"1m 30s\"`";

    fn read(value: &DeValue<'_>) -> Option<Duration> {
        humantime::parse_duration(value.as_str()?).ok()
    }
}

/// What is read as an `A`, or else as a `B`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Either<A, B> {
    First(A),
    Second(B),
}

impl<A: Read, B: Read> Read for Either<A, B> {
    const RULE: &'static str = B::RULE;
    const FIX: &'static str = B::FIX;

    fn read(value: &DeValue<'_>) -> Option<Either<A, B>> {
        A::read(value).map(Either::First).or_else(|| B::read(value).map(Either::Second))
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes(pub(super) u64);

impl Read for Bytes {
    const RULE: &'static str = "must be a number of bytes";
    const FIX: &'static str = "write it as in `4096`, `\"64KiB\"`, `\"512MiB\"` or `\"1GiB\"`";

    fn read(value: &DeValue<'_>) -> Option<Bytes> {
        let Some(text) = value.as_str() else {
            return u64::read(value).map(Bytes);
        };
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let scale = match &text[digits.len()..] {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        let number: u64 = digits.trim_end().parse().ok()?;
        number.checked_mul(scale).map(Bytes)
    }
}

/// Any value, as JSON.
impl Read for Value {
    const RULE: &'static str = "must be a string, a number, a boolean, a list or a table";
    const FIX: &'static str = "JSON has no dates, no infinity and no NaN: write them as strings";

    fn read(value: &DeValue<'_>) -> Option<Value> {
        Some(match value {
            DeValue::String(text) => Value::from(text.as_ref()),
            DeValue::Integer(number) => Value::from(integer::<i64>(number)?),
            DeValue::Float(number) => {
                Value::Number(Number::from_f64(number.as_str().parse().ok()?)?)
            }
            DeValue::Boolean(truth) => Value::from(*truth),
            DeValue::Datetime(_) => return None,
            DeValue::Array(items) => {
                let items = items.iter().map(|item| Value::read(item.get_ref()));
                Value::Array(items.collect::<Option<_>>()?)
            }
            DeValue::Table(table) => {
                let mut fields: Vec<_> = table.iter().collect();
                fields.sort_by_key(|(name, _)| name.span().start);
                let fields = fields.into_iter().map(|(name, value)| {
                    Some((name.get_ref().to_string(), Value::read(value.get_ref())?))
                });
                Value::Object(fields.collect::<Option<Map<_, _>>>()?)
            }
        })
    }
}
