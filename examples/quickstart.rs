//! Two dependencies, each behind its own wall: `cargo run --example quickstart`

#![allow(clippy::print_stdout, reason = "it shows what it does")]

use std::time::Duration;

use watertight::{PartitionSpec, Runtime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder()
        .partition(PartitionSpec::new("search").slots(2).run_limit(Duration::from_secs(1)))
        .partition(PartitionSpec::new("database").slots(2))
        .build()?;
    let search = runtime.partition("search").ok_or("search was just built")?;
    let database = runtime.partition("database").ok_or("database was just built")?;

    // Two searches hang and hold both slots of their partition.
    let hung: Vec<_> = (0..2)
        .map(|_| {
            search.submit(|run| {
                run.cancel_token().wait(run.remaining());
                Ok("late")
            })
        })
        .collect();

    // A third is told so, honestly and within 50 ms.
    let third = search.call(|_run| Ok("never runs"));
    println!("search:   {}", third.detail().unwrap_or_default());

    // Next door nothing is felt.
    let rows = database.call(|_run| Ok(7));
    println!("database: {:?} after {:?}", rows.result, rows.timing.ran);

    drop(hung);
    let report = runtime.shutdown(Duration::from_secs(1));
    println!("clean shutdown: {}", report.is_clean());
    Ok(())
}
