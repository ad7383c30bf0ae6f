//! Any length in bounded memory, back-pressure from a slow reader, and a reader that goes away.

use std::io::Write;
use std::thread;
use std::time::Duration;

use watertight::testing::{Behaviour, Reply, Vendor};

use crate::cli_support::Folder;

/// A backend that is slower than the input.
const MEMORY: &str = "[partition.memory]\nslots = 1\n[partition.memory.sql]\nurl = \"sqlite::memory:\"\n\
     [tool.length]\npartition = \"memory\"\nparams = [\"{text}\"]\n\
     sql = \"select length($1) as n, (with recursive c(x) as (select 1 union all select x + 1 from c \
     where x < 300) select count(*) from c) as steps\"\n";

/// Passes `lines` calls with `length` bytes each through a run; the most memory it had, in KiB.
fn pass(lines: usize, length: usize) -> u64 {
    let folder = Folder::new(MEMORY);
    let mut run = folder.start(&["--strict"]);
    let mut stdin = run.take_stdin();
    let writer = thread::spawn(move || {
        let text = "x".repeat(length);
        for id in 0..lines {
            writeln!(stdin, "{{\"id\":{id},\"tool\":\"length\",\"args\":{{\"text\":\"{text}\"}}}}")
                .unwrap();
        }
        stdin
    });
    let mut seen = vec![false; lines];
    for _ in 0..lines {
        let outcome = run.next().unwrap();
        assert_eq!(outcome["result"][0]["n"], length);
        let id = usize::try_from(outcome["id"].as_u64().unwrap()).unwrap();
        assert!(!std::mem::replace(&mut seen[id], true), "{id} has two outcomes");
    }
    // It still runs, because its input is open.
    let peak_kib = run.peak_memory_kib();
    drop(writer.join().unwrap());
    assert_eq!(run.end().code, Some(0));
    peak_kib
}

#[test]
fn ten_thousand_lines_pass_in_bounded_memory() {
    let (short, long) = (pass(10_000, 10), pass(5_000, 12_000));
    assert!(short < 48 * 1024, "{short} KiB");
    assert!(long < 50 * 1024, "{long} KiB for 58,000 KiB of lines");
}

fn search(vendor: &Vendor) -> Folder {
    Folder::new(&format!(
        "[partition.search.http]\nbase_url = \"{}\"\n[tool.search]\npartition = \"search\"\npath = \"/\"\n",
        vendor.url()
    ))
}

/// Writes `lines` calls from a thread of its own, as far as they are taken.
fn feed(mut stdin: impl Write + Send + 'static, lines: usize) -> thread::JoinHandle<usize> {
    thread::spawn(move || {
        let written = (0..lines).take_while(|_| writeln!(stdin, "{{\"tool\":\"search\"}}").is_ok());
        written.count()
    })
}

#[test]
fn a_slow_reader_holds_the_feeding_up() {
    const LINES: usize = 6_000;
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::json("1")));
    let folder = search(&vendor);
    let mut run = folder.start(&["--strict"]);
    let writer = feed(run.take_stdin(), LINES);
    // A pipe holds 64 KiB, which are some 300 outcomes; a few more are on their way.
    let overrun = vendor.wait(Duration::from_secs(3), |counts| counts.requests > 1_000);
    assert!(
        !overrun,
        "{} calls were made for a reader that reads nothing",
        vendor.counts().requests
    );
    assert!(vendor.counts().requests > 50, "it had begun");
    for _ in 0..LINES {
        assert_eq!(run.next().unwrap()["status"], "ok");
    }
    assert_eq!(writer.join().unwrap(), LINES);
    assert_eq!(run.end().code, Some(0));
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let vendor = Vendor::start().unwrap();
    vendor.set(Behaviour::Answer(Reply::json("1")));
    let folder = search(&vendor);
    let mut run = folder.start(&[]);
    let writer = feed(run.take_stdin(), 1_000_000);
    assert_eq!(run.next().unwrap()["status"], "ok");
    run.close_output();
    let ended = run.end();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert!(writer.join().unwrap() < 1_000_000, "the rest was not read");
}
