//! One HTTP request, read with bounds and distrust: any program of this machine may send anything.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Longest head of a request that is read. Browsers send less than a kilobyte.
const LONGEST: usize = 8 * 1024;

/// How long a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked for.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    pub(super) path: String,
    /// The state of the page that the asker has.
    pub(super) known: Option<String>,
}

/// Why a request is refused: a status and a line that says why.
pub(super) type Refusal = (&'static str, &'static str);

/// Reads a request that is meant for this address.
pub(super) fn read(from: &mut impl Read, here: SocketAddr) -> Result<Request, Refusal> {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes: Vec<u8> = Vec::with_capacity(1024);
    let mut buffer = [0; 1024];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if bytes.len() > LONGEST {
            return Err((
                "431 Request Header Fields Too Large",
                "the request is too long",
            ));
        }
        if Instant::now() > deadline {
            return Err(("408 Request Timeout", "the request took too long"));
        }
        match from.read(&mut buffer) {
            Ok(0) => return Err(("400 Bad Request", "the request is cut off")),
            Ok(n) => bytes.extend(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(("408 Request Timeout", "the request took too long")),
        }
    }
    parse(&bytes, here)
}

fn parse(bytes: &[u8], here: SocketAddr) -> Result<Request, Refusal> {
    let bad = ("400 Bad Request", "this is no HTTP request");
    let text = std::str::from_utf8(bytes).map_err(|_| bad)?;
    let (head, _) = text.split_once("\r\n\r\n").ok_or(bad)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad);
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Err(bad);
    }
    let (mut host, mut known) = (None, None);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(bad)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("host") && host.replace(value).is_some() {
            return Err(bad);
        }
        if name.eq_ignore_ascii_case("if-none-match") {
            known = Some(value.to_owned());
        }
    }
    // A page from elsewhere may have its name lead to this machine; its requests still carry that
    // name.
    if !host.is_some_and(|host| is_here(host, here)) {
        return Err((
            "403 Forbidden",
            "the report is served to this machine under its own names only",
        ));
    }
    if method != "GET" {
        return Err(("405 Method Not Allowed", "only GET is served"));
    }
    let path = target.split(['?', '#']).next().unwrap_or(target);
    Ok(Request {
        path: path.to_owned(),
        known,
    })
}

/// Whether a `Host` names this machine and this port.
fn is_here(host: &str, here: SocketAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(80)),
    };
    let names = ["localhost", "127.0.0.1", "[::1]"];
    let own = match here {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    port == Some(here.port()) && (names.iter().any(|n| name.eq_ignore_ascii_case(n)) || name == own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn here() -> SocketAddr {
        "127.0.0.1:7117".parse().unwrap()
    }

    fn ask(head: &str) -> Result<Request, &'static str> {
        let text = head.replace('\n', "\r\n");
        read(&mut text.as_bytes(), here()).map_err(|(status, _)| &status[..3])
    }

    #[test]
    fn a_browser_is_answered() {
        let asked = ask("GET /content?x HTTP/1.1\nHost: localhost:7117\nIf-None-Match: \"7\"\n\n");
        let path = "/content".to_owned();
        let known = Some("\"7\"".to_owned());
        assert_eq!(asked, Ok(Request { path, known }));
    }

    #[test]
    fn others_are_refused_with_the_right_number() {
        for (head, status) in [
            ("GET / HTTP/1.1\nHost: evil.example:7117\n\n", "403"),
            ("GET / HTTP/1.1\nHost: 127.0.0.1:80\n\n", "403"),
            ("GET / HTTP/1.1\nHost: 127.0.0.1\n\n", "403"),
            ("GET / HTTP/1.1\n\n", "403"),
            (
                "GET / HTTP/1.1\nHost: localhost:7117\nHost: evil\n\n",
                "400",
            ),
            ("POST / HTTP/1.1\nHost: localhost:7117\n\n", "405"),
            ("GET http://evil/ HTTP/1.1\nHost: localhost:7117\n\n", "400"),
            ("GET / HTTP/2\nHost: localhost:7117\n\n", "400"),
            ("GET /\n\n", "400"),
            ("nonsense\n\n", "400"),
            ("GET / HTTP/1.1\nHost: localhost:7117\n", "400"),
            ("\n\n", "400"),
        ] {
            assert_eq!(ask(head), Err(status), "{head:?}");
        }
        let endless = format!("GET / HTTP/1.1\nX: {}\n\n", "x".repeat(20_000));
        assert_eq!(ask(&endless), Err("431"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&mut bytes.as_slice(), here());
        }
    }
}
