//! What a child process costs by the driver, beside `std::process::Command` in the same run.
//!
//! `cargo bench --no-default-features --features process --bench process`
//!
//! Blocks of calls of `true` are interleaved, the bare library twice, so that its spread against
//! itself is known. Fails if a call without a shim costs more than 1.05 of the bare library, given
//! that spread. What a shim and a control group add is printed only.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's output is what it prints"
)]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    use linux::{Way, bare, by_driver, compare};
    use watertight::driver::process::{Process, Shim};

    let shim = || Process::new().shim(Shim::At(env!("CARGO_BIN_EXE_watertight-shim").into()));
    let ways: [Way; 5] = [
        ("std::process::Command", Box::new(bare)),
        ("the same again", Box::new(bare)),
        ("without a shim", by_driver(Process::new().shim(Shim::Off))),
        ("with a shim", by_driver(shim())),
        ("with a shim and a cgroup", by_driver(shim().cgroup(true))),
    ];
    let [_, same, group, ..] = compare(&ways);
    let bound = 1.05 * same.max(1.0);
    println!("without a shim: ratio {group:.3}, at most {bound:.3}");
    assert!(group <= bound, "the driver costs too much");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use watertight::call::{CancelToken, Run};
    use watertight::driver::args::Args;
    use watertight::driver::process::{Command, Process};
    use watertight::driver::{Sizing, Tool};

    const BLOCKS: usize = 21;
    const CALLS: u32 = 50;
    const LIMIT: Duration = Duration::from_secs(30);
    const PROGRAM: &str = "/bin/true";

    /// A name and one call.
    pub(crate) type Way = (&'static str, Box<dyn Fn()>);

    pub(crate) fn bare() {
        let mut command = std::process::Command::new(PROGRAM);
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        assert!(output.status.success());
    }

    pub(crate) fn by_driver(process: Process) -> Box<dyn Fn()> {
        let sizing = Sizing {
            partition: Arc::from("bench"),
            connections: 1,
            run_limit: LIMIT,
        };
        let launcher = process.open(&sizing).unwrap();
        let tool: Arc<dyn Tool> = launcher.tool(Command::new([PROGRAM])).unwrap();
        Box::new(move || {
            let mut operation = tool.prepare(&Args::new()).unwrap();
            let result = operation(&Run::detached(LIMIT, CancelToken::new())).unwrap();
            assert_eq!(result.decode().unwrap()["exit_code"], 0);
        })
    }

    /// Prints what each way costs, and returns the median ratio of its blocks to the first way's.
    pub(crate) fn compare<const N: usize>(ways: &[Way; N]) -> [f64; N] {
        let mut blocks = vec![[0.0; N]; BLOCKS];
        for block in &mut blocks {
            for (time, (_, call)) in block.iter_mut().zip(ways) {
                let start = Instant::now();
                (0..CALLS).for_each(|_| call());
                *time = start.elapsed().as_secs_f64() * 1000.0 / f64::from(CALLS);
            }
        }
        println!("{CALLS} calls a block, {BLOCKS} blocks; medians, and an upper bound (95 %)");
        std::array::from_fn(|way| {
            let [cost, _] = median(blocks.iter().map(|block| block[way]));
            let [ratio, upper] = median(blocks.iter().map(|block| block[way] / block[0]));
            let [added, _] = median(blocks.iter().map(|block| block[way] - block[0]));
            println!(
                "{:26} {cost:6.3} ms a call  {added:+6.3} ms  ratio {ratio:.3} (up to {upper:.3})",
                ways[way].0
            );
            ratio
        })
    }

    /// The median, and its upper bound: of 21 values, the 15th.
    fn median(values: impl Iterator<Item = f64>) -> [f64; 2] {
        let mut values: Vec<_> = values.collect();
        values.sort_by(f64::total_cmp);
        [values[BLOCKS / 2], values[BLOCKS / 2 + 4]]
    }
}
