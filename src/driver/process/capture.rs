//! What is kept of one pipe: its first bytes and its last ones, under a cap.

use std::collections::VecDeque;

/// Keeps the head and the tail of a stream of any length in bounded memory, and counts the rest.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    total: u64,
}

impl Capture {
    /// Keeps at most `kept` bytes, half of them from the end.
    pub(super) fn new(kept: usize) -> Capture {
        let tail_max = kept / 2;
        Capture {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_max: kept - tail_max,
            tail_max,
            total: 0,
        }
    }

    /// Takes the next bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_max - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// All bytes of the stream, those left out included.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether bytes were left out.
    pub(super) fn truncated(&self) -> bool {
        self.left_out() > 0
    }

    fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// The text that was kept; where bytes were left out, a line between head and tail says how
    /// many. Bytes that are not UTF-8 become U+FFFD; a character cut in two is left out whole.
    pub(super) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if !self.truncated() {
            return lossy(&[self.head.as_slice(), &tail].concat());
        }
        let head = without_cut_end(&self.head);
        let tail = without_cut_start(&tail);
        let left_out = self.total - (head.len() + tail.len()) as u64;
        format!("{}\n[... {left_out} bytes left out ...]\n{}", lossy(head), lossy(tail))
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `bytes` without the first bytes of a character that goes on after them.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    let from = bytes.len().saturating_sub(3);
    let last = bytes[from..].iter().rposition(|byte| byte & 0xC0 == 0xC0).map(|at| from + at);
    match last {
        Some(at) if str::from_utf8(&bytes[at..]).is_err_and(|e| e.error_len().is_none()) => {
            &bytes[..at]
        }
        _ => bytes,
    }
}

/// `bytes` without the last bytes of a character that began before them.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let continued = bytes.iter().take(3).take_while(|byte| *byte & 0xC0 == 0x80).count();
    &bytes[continued..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_kept_as_it_is() {
        let mut capture = Capture::new(8);
        for piece in ["ab", "", "cde", "fgh"] {
            capture.push(piece.as_bytes());
        }
        assert_eq!((capture.text().as_str(), capture.truncated()), ("abcdefgh", false));
    }

    #[test]
    fn head_and_tail_are_kept_whatever_the_pieces() {
        let stream: Vec<u8> = (b'a'..=b'z').collect();
        for size in 1..=stream.len() {
            let mut capture = Capture::new(9);
            stream.chunks(size).for_each(|piece| capture.push(piece));
            assert_eq!(capture.text(), "abcde\n[... 17 bytes left out ...]\nwxyz", "{size}");
            assert_eq!(capture.total(), 26);
            assert!(capture.tail.len() <= 4 && capture.head.len() <= 5);
        }
    }

    #[test]
    fn nothing_kept_is_still_counted() {
        let mut capture = Capture::new(0);
        capture.push(b"abc");
        assert_eq!(capture.text(), "\n[... 3 bytes left out ...]\n");
    }

    #[test]
    fn a_cut_never_shows_half_a_character() {
        for kept in 0..24 {
            let mut capture = Capture::new(kept);
            capture.push("aé€😀".repeat(8).as_bytes());
            assert!(!capture.text().contains('\u{FFFD}'), "{kept}: {}", capture.text());
        }
        let mut capture = Capture::new(12);
        capture.push(b"\xFFaaa\xE2\x82\xAC..........................\x80aaaaa");
        let text = capture.text();
        assert!(text.starts_with("\u{FFFD}aaa\n[...") && text.ends_with("\naaaaa"), "{text:?}");
    }
}
