//! The input, line by line in bounded memory, on a thread of its own.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _};
use std::path::Path;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::call::{self, About, Call, Invalid};
use crate::cli::tell;
use crate::runtime::Waker;

/// The longest line, in bytes.
const LINE_MAX: usize = 1 << 20;
/// Lines read and not taken over yet.
const AHEAD: usize = 8;

/// What is read, in order. The channel ends with the input.
pub(super) enum Read {
    Call(Box<Call>),
    Invalid(Invalid),
    /// The input cannot be read on.
    Broken(io::Error),
}

/// Opens `path`; without one, or for `-`, standard input.
pub(super) fn open(path: Option<&Path>) -> io::Result<Box<dyn BufRead + Send>> {
    match path {
        Some(path) if path != Path::new("-") => Ok(Box::new(BufReader::new(File::open(path)?))),
        _ => {
            if io::stdin().is_terminal() {
                tell("watertight: reading calls from the terminal, one a line; Ctrl-D ends them");
            }
            Ok(Box::new(BufReader::new(io::stdin())))
        }
    }
}

/// Reads `input` on a thread of its own, which uses `waker` after each line and at the end.
pub(super) fn start(
    mut input: Box<dyn BufRead + Send>,
    waker: Waker,
) -> io::Result<Receiver<Read>> {
    let (sender, receiver) = bounded(AHEAD);
    let read = move || {
        read_all(&mut *input, &sender, &waker);
        drop(sender);
        waker.wake();
    };
    thread::Builder::new().name("input".to_owned()).spawn(read)?;
    Ok(receiver)
}

fn read_all(input: &mut dyn BufRead, sender: &Sender<Read>, waker: &Waker) {
    let mut text = Vec::new();
    for line in 1.. {
        let read = match read_line(input, &mut text) {
            Ok(Line::End) => return,
            Ok(Line::Whole) if text.trim_ascii().is_empty() => continue,
            Ok(Line::Whole) => match call::parse(line, &text) {
                Ok(call) => Read::Call(Box::new(call)),
                Err(invalid) => Read::Invalid(invalid),
            },
            Ok(Line::TooLong) => Read::Invalid(Invalid {
                about: About { line, id: None },
                message: format!("line {line} is longer than {LINE_MAX} bytes"),
            }),
            Err(error) => Read::Broken(error),
        };
        let broken = matches!(read, Read::Broken(_));
        let taken = sender.send(read).is_ok();
        waker.wake();
        if broken || !taken {
            return;
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads one line into `text`, without its end. Of a line that is too long nothing is kept.
fn read_line(input: &mut dyn BufRead, text: &mut Vec<u8>) -> io::Result<Line> {
    text.clear();
    let mut length = 0usize;
    loop {
        let buffer = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        if buffer.is_empty() && length == 0 {
            return Ok(Line::End);
        }
        let newline = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..newline.unwrap_or(buffer.len())];
        let at_end = newline.is_some() || buffer.is_empty();
        length = length.saturating_add(part.len());
        if length <= LINE_MAX {
            text.extend_from_slice(part);
        }
        let used = part.len() + usize::from(newline.is_some());
        input.consume(used);
        if at_end {
            let whole = length <= LINE_MAX;
            return Ok(if whole { Line::Whole } else { Line::TooLong });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], chunk: usize) -> Vec<(Line, usize)> {
        let mut input = BufReader::with_capacity(chunk, input);
        let mut text = Vec::new();
        let mut lines = Vec::new();
        loop {
            let line = read_line(&mut input, &mut text).unwrap();
            if line == Line::End {
                return lines;
            }
            lines.push((line, text.len()));
        }
    }

    #[test]
    fn lines_end_with_a_newline_or_the_input() {
        for chunk in [1, 2, 3, 64] {
            assert_eq!(lines(b"", chunk), []);
            let (one, two) = ((Line::Whole, 2), (Line::Whole, 0));
            assert_eq!(lines(b"ab\n\nab", chunk), [one, two, (Line::Whole, 2)]);
        }
    }

    #[test]
    fn a_line_of_the_longest_length_is_kept_and_a_longer_one_is_not() {
        let mut input = vec![b'x'; LINE_MAX];
        input.push(b'\n');
        input.extend(vec![b'x'; 3 * LINE_MAX]);
        input.extend(b"\ny\n");
        let lines = lines(&input, 8192);
        assert_eq!(lines[0], (Line::Whole, LINE_MAX));
        assert_eq!(lines[1].0, Line::TooLong);
        assert!(lines[1].1 <= LINE_MAX, "what is too long is not kept");
        assert_eq!(lines[2], (Line::Whole, 1));
    }
}
