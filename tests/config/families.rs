//! Partition families: what is read, and what is said of what cannot be.

use super::{SECRET, errors, read};

const EU: &str = "eu.sql.url = \"sqlite::memory:\"";
const TOOL: &str = "[tool.t]\npartition = \"p\"\nsql = \"select 1\"";

fn family(knobs: &str, members: &str) -> String {
    format!("[partition.p]\n{knobs}\n[partition.p.members]\n{members}\n{TOOL}\n")
}

#[test]
fn the_knobs_are_each_members() {
    let config = read(&family("by = \"shard\"\nslots = 3", &format!("{EU}\nus.{}", &EU[3..])));
    let runtime = config.unwrap().build().unwrap();
    let seen = runtime.partitions().map(|p| (p.name().to_owned(), p.spec().policy().slots));
    assert_eq!(seen.collect::<Vec<_>>(), [("p.eu".to_owned(), 3), ("p.us".to_owned(), 3)]);
    assert_eq!(runtime.tools(), ["t"]);
}

#[test]
fn what_is_wrong_is_told_once_with_its_place() {
    for (text, said) in [
        (family("", EU), "3:14: partition.p.members: needs `by`, the argument"),
        (family("by = \"a b\"", EU), "2:1: partition.p.by = \"a b\": must be an argument's name"),
        (family("by = \"shard\"\nslots = 0", EU), "3:1: partition.p.slots = 0: must be 1 to 4096"),
        (
            format!("[partition.p]\nby = \"shard\"\n{TOOL}\n"),
            "1:12: partition.p: is a family without members",
        ),
        (family("by = \"shard\"", "eu = {}"), "4:1: partition.p.members.eu: is a member without a"),
        (
            family("by = \"shard\"", "\"a b\".sql.url = \"sqlite::memory:\""),
            "must be a key of letters",
        ),
        (family("by = \"shard\"\nsql.url = \"sqlite::memory:\"", EU), "is no known key"),
        (
            family("by = \"shard\"", &format!("{EU}\nus.{}", &EU[3..]))
                .replace("select 1", "select $1"),
            "tool.t",
        ),
    ] {
        let errors = errors(&text);
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].contains(said), "{errors:#?}");
    }
}

#[test]
fn a_members_credential_is_in_no_error() {
    let members = "eu.http.base_url = \"ftp://${SEARCH_TOKEN}@eu.example\"";
    for error in errors(&family("by = \"shard\"", members)) {
        assert!(!error.contains(SECRET), "{error}");
    }
}
