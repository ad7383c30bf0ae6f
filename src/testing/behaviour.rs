//! What the vendor does with a request.

use std::time::Duration;

/// A whole answer: status, headers, body.
///
/// ```
/// use watertight::testing::Reply;
///
/// let reply = Reply::json(r#"{"hits": 3}"#).header("ETag", "v1");
/// let busy = Reply::status(503).header("Retry-After", "2");
/// # let _ = (reply, busy);
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Reply {
    /// An answer of `status` without a body.
    pub fn status(status: u16) -> Reply {
        Reply { status, headers: Vec::new(), body: Vec::new() }
    }

    /// `200` with `body` as `text/plain`.
    pub fn text(body: impl Into<String>) -> Reply {
        Reply::status(200).body("text/plain; charset=utf-8", body.into())
    }

    /// `200` with `body`, which should be JSON, as `application/json`.
    pub fn json(body: impl Into<String>) -> Reply {
        Reply::status(200).body("application/json", body.into())
    }

    /// The same answer with another status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Reply {
        self.status = status;
        self
    }

    /// The same answer with one more header. `Content-Length` is the vendor's.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Reply {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The same answer with `body`, declared as `content_type`.
    #[must_use]
    pub fn body(self, content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
        let mut reply = self.header("Content-Type", content_type);
        reply.body = body.into();
        reply
    }

    /// The head up to the empty line.
    pub(super) fn head(&self, framing: Framing, close: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, phrase(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match framing {
            Framing::ContentLength => {
                head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
            }
            Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            Framing::UntilClose => {}
        }
        if close || framing == Framing::UntilClose {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// The two halves of the body as they are sent.
    pub(super) fn halves(&self, framing: Framing) -> (Vec<u8>, Vec<u8>) {
        let (first, rest) = self.body.split_at(self.body.len() / 2);
        match framing {
            Framing::ContentLength | Framing::UntilClose => (first.to_vec(), rest.to_vec()),
            Framing::Chunked => (chunk(first), [chunk(rest), b"0\r\n\r\n".to_vec()].concat()),
        }
    }
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    // An empty one would be the end.
    if bytes.is_empty() {
        return Vec::new();
    }
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

impl Default for Reply {
    /// `200`, `ok`.
    fn default() -> Reply {
        Reply::text("ok")
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200..=299 => "OK",
        300..=399 => "Elsewhere",
        400..=499 => "Refused",
        500..=599 => "Broken",
        _ => "Odd",
    }
}

/// How the client can tell where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By its `Content-Length`.
    ContentLength,
    /// By the last of its chunks.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// What the vendor does with a request. Whatever lasts ends at once when the client goes away or
/// the vendor is stopped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Behaviour {
    /// Answers.
    Answer(Reply),
    /// Answers after a delay.
    Delay(Duration, Reply),
    /// Answers after a delay, but with another answer at once if more requests are in flight than it
    /// takes.
    AtMost {
        /// How many it takes at once; each request counts until it is answered.
        in_flight: usize,
        /// How long it works on each.
        delay: Duration,
        /// What it answers then.
        reply: Reply,
        /// What it answers those above.
        over: Reply,
    },
    /// Reads the request and does not answer before [`Vendor::release`](super::Vendor::release),
    /// and then with the default [`Reply`].
    Hang,
    /// Answers with a byte of the head at a time.
    DripHead {
        /// The pause before each byte.
        every: Duration,
        /// What it answers in the end.
        reply: Reply,
    },
    /// Answers with the head and half of the body, and then hangs.
    HangBody {
        /// How the client can tell where the body ends.
        framing: Framing,
        /// What it answers in the end.
        reply: Reply,
    },
    /// Answers with the head at once and a byte of the body at a time.
    DripBody {
        /// The pause before each byte.
        every: Duration,
        /// What it answers in the end.
        reply: Reply,
    },
    /// Answers with a body that never ends, as fast as the client reads.
    EndlessBody,
    /// Answers with the head and half of the body, and then resets the connection.
    Reset {
        /// How the client can tell where the body ends.
        framing: Framing,
        /// What it would have answered.
        reply: Reply,
    },
    /// Answers with the head and half of the body, and then closes the connection.
    CutBody {
        /// How the client can tell where the body ends.
        framing: Framing,
        /// What it would have answered.
        reply: Reply,
    },
    /// Answers with a body of another framing than `Content-Length`.
    Framed(Framing, Reply),
    /// Answers, and closes the connection although it said it would keep it.
    AnswerThenClose(Reply),
    /// Answers with bytes that are not HTTP, and keeps the connection open.
    Garbage,
    /// Reads the request and closes the connection without an answer.
    Close,
    /// Redirects to the path it was asked for, for ever.
    RedirectLoop,
    /// Answers with this many bytes of headers.
    HugeHead(usize),
    /// Accepts the connection and never reads. As the behaviour of a path, which cannot be known
    /// without reading, it is the same as [`Behaviour::Hang`].
    NeverRead,
}

impl Default for Behaviour {
    /// Answers with the default [`Reply`].
    fn default() -> Behaviour {
        Behaviour::Answer(Reply::default())
    }
}
