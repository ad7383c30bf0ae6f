//! Requests as the vendor reads them.

/// The most bytes of a request's head.
const HEAD_MAX: usize = 64 * 1024;
/// The most bytes of a request's body.
const BODY_MAX: usize = 16 * 1024 * 1024;
/// The most headers of a request.
const HEADERS_MAX: usize = 128;

/// A request that the vendor has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Its path with the query, as sent.
    pub target: String,
    /// Its headers, as sent and in order.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Seen {
    /// Its path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The first header of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn wants_close(&self) -> bool {
        self.header("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// What the bytes read so far are.
pub(super) enum Progress {
    /// The beginning of a request.
    Partial,
    /// A request, and how many bytes it takes.
    Whole(Seen, usize),
    /// Nothing this server understands.
    Bad,
}

/// Reads one request off the front of `input`.
pub(super) fn parse(input: &[u8]) -> Progress {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_len = match head.parse(input) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if input.len() < HEAD_MAX => return Progress::Partial,
        _ => return Progress::Bad,
    };
    let mut seen = Seen {
        method: head.method.unwrap_or_default().to_owned(),
        target: head.path.unwrap_or_default().to_owned(),
        headers: (head.headers.iter())
            .map(|h| (h.name.to_owned(), String::from_utf8_lossy(h.value).into_owned()))
            .collect(),
        body: Vec::new(),
    };
    let rest = &input[head_len..];
    if seen.header("Transfer-Encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        return chunked(seen, head_len, rest);
    }
    match seen.header("Content-Length").unwrap_or("0").parse::<usize>() {
        Ok(len) if len > BODY_MAX => Progress::Bad,
        Ok(len) if rest.len() < len => Progress::Partial,
        Ok(len) => {
            seen.body = rest[..len].to_vec();
            Progress::Whole(seen, head_len + len)
        }
        Err(_) => Progress::Bad,
    }
}

fn chunked(mut seen: Seen, head_len: usize, mut rest: &[u8]) -> Progress {
    let whole = rest.len();
    loop {
        let (line, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete((line, size))) => (line, size as usize),
            Ok(httparse::Status::Partial) => return Progress::Partial,
            Err(_) => return Progress::Bad,
        };
        if seen.body.len().saturating_add(size) > BODY_MAX {
            return Progress::Bad;
        }
        let Some(chunk) = rest.get(line..line + size + 2) else {
            return Progress::Partial;
        };
        seen.body.extend_from_slice(&chunk[..size]);
        rest = &rest[line + size + 2..];
        if size == 0 {
            return Progress::Whole(seen, head_len + whole - rest.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(input: &[u8]) -> (Seen, usize) {
        match parse(input) {
            Progress::Whole(seen, len) => (seen, len),
            Progress::Partial => panic!("partial"),
            Progress::Bad => panic!("bad"),
        }
    }

    #[test]
    fn requests_are_cut_off_the_front() {
        let input = b"POST /a?b=c HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\n\r\n";
        let (first, len) = whole(input);
        assert_eq!((first.path(), first.body.as_slice()), ("/a", b"hi".as_slice()));
        let (second, rest) = whole(&input[len..]);
        assert_eq!((second.method.as_str(), len + rest), ("GET", input.len()));
        assert!(matches!(parse(&input[..len - 1]), Progress::Partial));
    }

    #[test]
    fn chunked_bodies_are_put_together() {
        let input =
            b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3\r\n ho\r\n0\r\n\r\n";
        let (seen, len) = whole(input);
        assert_eq!((seen.body.as_slice(), len), (b"hi ho".as_slice(), input.len()));
        for cut in 1..input.len() {
            assert!(matches!(parse(&input[..cut]), Progress::Partial), "{cut}");
        }
    }

    #[test]
    fn what_is_no_request_or_too_long_is_bad() {
        let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD_MAX));
        for input in [
            b"\x16\x03\x01\x02\x00\x01".as_slice(),
            b"POST / HTTP/1.1\r\nContent-Length: no\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            long.as_bytes(),
        ] {
            assert!(matches!(parse(input), Progress::Bad));
        }
    }
}
