//! Server-sent events, parsed on the thread that reads them.

use std::collections::VecDeque;
use std::time::Duration;

use super::stream::Stream;
use crate::outcome::{Failure, FailureReason};

/// The most bytes of one event.
const EVENT_MAX: usize = 1024 * 1024;

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its type; `message` if the backend gives none.
    pub event: String,
    /// Its data; lines are joined by line feeds.
    pub data: String,
    /// The last id the backend gave, with this event or before; empty if none.
    pub id: String,
}

/// The events of a stream, as the HTML standard reads them: an event that the stream's end cuts
/// short is dropped.
///
/// Each step blocks until the next event is whole, within the limits of its [`Stream`]. After a
/// failure or the end there is nothing more. An event larger than 1 MiB is
/// [`FailureReason::TooLarge`].
#[derive(Debug)]
pub struct Events {
    stream: Stream,
    parser: Parser,
    ready: VecDeque<Event>,
    ended: bool,
}

impl Events {
    /// The events in `stream`.
    pub fn new(stream: Stream) -> Events {
        Events { stream, parser: Parser::default(), ready: VecDeque::new(), ended: false }
    }

    /// How long the backend asks to wait before the next attempt at such a stream, if it does.
    pub fn retry(&self) -> Option<Duration> {
        self.parser.retry
    }

    fn read(&mut self) -> Result<(), Failure> {
        let mut block = [0; 8 * 1024];
        match self.stream.receive(&mut block)? {
            0 => self.ended = true,
            count => self.parser.push(&block[..count], &mut self.ready)?,
        }
        Ok(())
    }
}

impl Iterator for Events {
    type Item = Result<Event, Failure>;

    fn next(&mut self) -> Option<Result<Event, Failure>> {
        while self.ready.is_empty() && !self.ended {
            if let Err(failure) = self.read() {
                self.ended = true;
                return Some(Err(failure));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

/// The state between two blocks of bytes.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    /// The last line ended with a carriage return: a line feed now belongs to it.
    after_cr: bool,
    /// A byte order mark may come before the first line only.
    begun: bool,
    event: String,
    data: String,
    has_data: bool,
    id: String,
    retry: Option<Duration>,
}

impl Parser {
    fn push(&mut self, bytes: &[u8], ready: &mut VecDeque<Event>) -> Result<(), Failure> {
        for &byte in bytes {
            let ends_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if ends_cr => {}
                b'\n' | b'\r' => self.end_line(ready),
                _ if self.line.len() + self.data.len() >= EVENT_MAX => {
                    let message = format!("an event exceeds {EVENT_MAX} bytes");
                    return Err(Failure::new(FailureReason::TooLarge, message));
                }
                _ => self.line.push(byte),
            }
        }
        Ok(())
    }

    fn end_line(&mut self, ready: &mut VecDeque<Event>) {
        let bytes = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes);
        let mut line = &*line;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(ready);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok().map(Duration::from_millis).or(self.retry);
            }
            // A comment, or a field of a later standard.
            _ => {}
        }
    }

    fn dispatch(&mut self, ready: &mut VecDeque<Event>) {
        let mut event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data);
        if !std::mem::take(&mut self.has_data) {
            return;
        }
        if event.is_empty() {
            event.push_str("message");
        }
        ready.push_back(Event { event, data, id: self.id.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(blocks: &[&[u8]]) -> (Vec<Event>, Parser) {
        let (mut parser, mut ready) = (Parser::default(), VecDeque::new());
        for block in blocks {
            parser.push(block, &mut ready).unwrap();
        }
        (ready.into(), parser)
    }

    fn event(event: &str, data: &str, id: &str) -> Event {
        Event { event: event.into(), data: data.into(), id: id.into() }
    }

    const SAMPLE: &str = "\u{feff}: a comment\ndata: one\ndata:two\r\n\r\nevent: delta\rid: 7\rdata\
        \r\rid\0: no\nid: 8\0\nretry: 1500\nretry: x1\nnothing: x\n\nevent: lost\n\ndata:  é\n\n\
        data: cut";

    fn expected() -> Vec<Event> {
        vec![event("message", "one\ntwo", ""), event("delta", "", "7"), event("message", " é", "7")]
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        let (events, parser) = parse(&[SAMPLE.as_bytes()]);
        assert_eq!(events, expected());
        assert_eq!(parser.retry, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn blocks_may_be_cut_anywhere() {
        let bytes = SAMPLE.as_bytes();
        for cut in 0..bytes.len() {
            assert_eq!(parse(&[&bytes[..cut], &bytes[cut..]]).0, expected(), "{cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single).0, expected());
    }

    #[test]
    fn an_event_has_a_bound() {
        let line = [b"data: ".as_slice(), &vec![b'x'; EVENT_MAX / 2], b"\n"].concat();
        let (mut parser, mut ready) = (Parser::default(), VecDeque::new());
        parser.push(&line, &mut ready).unwrap();
        let failure = parser.push(&line, &mut ready).unwrap_err();
        assert_eq!(failure.reason, FailureReason::TooLarge);
    }
}
