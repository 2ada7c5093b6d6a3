//! The page on this machine, kept up to date while programs learn.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use super::data::{Cache, Report};
use super::page::{self, Kind};
use super::request::{self, Request};
use crate::kept::Kept;
use crate::output::{Failure, print};

/// Where the page is served unless another address is given.
pub(super) const DEFAULT: &str = "127.0.0.1:7117";

const DEFAULT_PORT: u16 = 7117;

/// Requests that are answered at the same time; more are turned away.
const MOST_AT_ONCE: usize = 32;

/// How long writing an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The page is made anew at most once in this time, and at most in a tenth of all time: programs
/// that are measured should not notice.
const LEAST_AGE: Duration = Duration::from_secs(1);
const REST: u32 = 9;

/// Serves until the process is told to end.
pub(super) fn serve(address: &str) -> Result<ExitCode, Failure> {
    let path = Kept::place()?;
    let address = loopback(address)?;
    let listener = TcpListener::bind(address).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => "the port is taken".to_owned(),
            _ => error.to_string(),
        };
        Failure::new(format!(
            "cannot serve on {address}: {why}; --serve {}:0 takes any that is free",
            address.ip()
        ))
    })?;
    let here = listener.local_addr().map_err(Failure::new)?;
    let mut live = Live::new(path);
    // What is wrong with the store is told before anybody looks.
    live.refresh(Instant::now())?;
    ctrlc::set_handler(|| std::process::exit(0))
        .map_err(|error| Failure::new(format!("cannot listen for Ctrl-C: {error}")))?;
    print(&format!(
        "serving the report at http://{here}/ until Ctrl-C"
    ));
    let live = Arc::new(Mutex::new(live));
    let busy = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        // One that is gone before it is taken, or no room for another: the next may do better.
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let place = Place::take(&busy);
        if busy.load(Relaxed) > MOST_AT_ONCE {
            let _ = Answer::refusal(("503 Service Unavailable", "too many at once")).send(&stream);
            continue;
        }
        let live = live.clone();
        // Without a thread for it the connection is closed, and the browser asks again.
        let _ = std::thread::Builder::new().spawn(move || {
            let _place = place;
            answer(stream, here, &live);
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// A request that is being answered.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(busy: &Arc<AtomicUsize>) -> Self {
        busy.fetch_add(1, Relaxed);
        Place(busy.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// An address of this machine that no other can reach.
fn loopback(text: &str) -> Result<SocketAddr, Failure> {
    let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let with_port = text.strip_prefix("localhost:").unwrap_or(text);
    let address = match (with_port.parse::<u16>(), text.parse::<IpAddr>()) {
        (Ok(port), _) => local(port),
        (_, Ok(ip)) => SocketAddr::new(ip, DEFAULT_PORT),
        _ if text == "localhost" => local(DEFAULT_PORT),
        _ => text.parse().map_err(|_| {
            Failure::new(format!(
                "{text:?} is no address to serve on; one is like {DEFAULT}"
            ))
        })?,
    };
    if !address.ip().is_loopback() {
        return Err(Failure::new(format!(
            "{} is not an address of this machine alone; the report is served on loopback only, such as {DEFAULT}",
            address.ip()
        )));
    }
    Ok(address)
}

/// Answers one request. Nothing that arrives can do more than waste its own thread for a while.
fn answer(mut stream: TcpStream, here: SocketAddr, live: &Mutex<Live>) {
    let timed = stream
        .set_read_timeout(Some(PATIENCE / 2))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    if timed.is_err() {
        return;
    }
    let answer = match request::read(&mut stream, here) {
        Ok(request) => Answer::to(&request, live),
        Err(refusal) => Answer::refusal(refusal),
    };
    // Whoever has gone away misses the answer.
    let _ = answer.send(&stream);
    // What is still on its way is read, or closing would tell the asker of an error instead.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let _ = std::io::copy(
        &mut std::io::Read::take(&stream, 64 * 1024),
        &mut std::io::sink(),
    );
}

struct Answer {
    status: &'static str,
    kind: &'static str,
    tag: Option<String>,
    body: Arc<str>,
}

impl Answer {
    fn refusal((status, why): request::Refusal) -> Self {
        Self::plain(status, why)
    }

    fn plain(status: &'static str, why: &str) -> Self {
        Answer {
            status,
            kind: "text/plain",
            tag: None,
            body: format!("{why}\n").into(),
        }
    }

    fn to(request: &Request, live: &Mutex<Live>) -> Self {
        let found = |kind, tag: Option<String>, body| Answer {
            status: "200 OK",
            kind,
            tag,
            body,
        };
        if !matches!(&*request.path, "/" | "/content" | "/data.json") {
            return Self::plain("404 Not Found", "there is /, /content and /data.json");
        }
        let shown = {
            // A panic while it was made leaves the last one in place.
            let mut live = live.lock().unwrap_or_else(|e| e.into_inner());
            live.look()
        };
        let shown = match shown {
            Ok(shown) => shown,
            Err(why) => return Self::plain("503 Service Unavailable", &why),
        };
        match &*request.path {
            "/" => found("text/html", None, shown.page),
            "/data.json" => found("application/json", None, shown.json),
            _ if request.known.as_deref() == Some(&*shown.tag) => Answer {
                status: "304 Not Modified",
                ..found("text/html", Some(shown.tag), "".into())
            },
            _ => found("text/html", Some(shown.tag), shown.content),
        }
    }

    fn send(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        if self.status.starts_with("405") {
            head.push_str("Allow: GET\r\n");
        }
        if let Some(tag) = &self.tag {
            head.push_str(&format!("ETag: {tag}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(self.body.as_bytes())?;
        stream.flush()
    }
}

/// What is shown, and when it has to be made anew.
struct Live {
    path: PathBuf,
    cache: Cache,
    shown: Option<Shown>,
    /// What the store's files looked like then.
    stamp: Stamp,
    made: Instant,
    took: Duration,
    trouble: Option<String>,
}

#[derive(Clone)]
struct Shown {
    page: Arc<str>,
    content: Arc<str>,
    json: Arc<str>,
    tag: String,
}

/// Lengths and times of the store's file and of the log beside it.
type Stamp = [Option<(u64, SystemTime)>; 2];

fn stamp(path: &Path) -> Stamp {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    [path.to_owned(), PathBuf::from(log)].map(|path| {
        let file = fs::metadata(path).ok()?;
        Some((file.len(), file.modified().ok()?))
    })
}

impl Live {
    fn new(path: PathBuf) -> Self {
        Live {
            path,
            cache: Cache::default(),
            shown: None,
            stamp: [None; 2],
            made: Instant::now(),
            took: Duration::ZERO,
            trouble: None,
        }
    }

    /// What is to be shown now, or what is wrong.
    fn look(&mut self) -> Result<Shown, String> {
        let now = Instant::now();
        let rested = now.duration_since(self.made) >= LEAST_AGE.max(REST * self.took);
        if rested && stamp(&self.path) != self.stamp {
            self.trouble = self.refresh(now).err().map(|why| why.to_string());
        }
        match (&self.trouble, &self.shown) {
            (None, Some(shown)) => Ok(shown.clone()),
            (Some(why), _) => Err(why.clone()),
            (None, None) => Err("the report has not been made yet".to_owned()),
        }
    }

    fn refresh(&mut self, now: Instant) -> Result<(), Failure> {
        // Taken first: what changes while it is read is seen next time.
        self.stamp = stamp(&self.path);
        let known = super::read(&self.path).map(Option::unwrap_or_default);
        let report = known.and_then(|known| Report::new(&self.path, &known, &mut self.cache));
        (self.made, self.took) = (Instant::now(), now.elapsed());
        let report = report?;
        let content = page::content(&report, Kind::Live);
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        self.shown = Some(Shown {
            page: page::page(&report, Kind::Live).into(),
            content: content.into(),
            json: serde_json::to_string(&report).map_err(Failure::new)?.into(),
            tag: format!("\"{:016x}\"", hasher.finish()),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_served() {
        let address = |text| {
            loopback(text)
                .map(|a| a.to_string())
                .map_err(|e| e.to_string())
        };
        for (text, meant) in [
            ("8080", "127.0.0.1:8080"),
            ("localhost", "127.0.0.1:7117"),
            ("localhost:0", "127.0.0.1:0"),
            ("127.0.0.1", "127.0.0.1:7117"),
            ("127.1.2.3:9", "127.1.2.3:9"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(address(text), Ok(meant.to_owned()));
        }
        for text in ["0.0.0.0:80", "192.168.1.7:80", "[::]:80", "10.0.0.1"] {
            assert!(address(text).unwrap_err().contains("loopback"), "{text}");
        }
        for text in ["", "host:80", "127.0.0.1:99999", "evil.example:80"] {
            assert!(address(text).unwrap_err().contains("no address"), "{text}");
        }
    }
}
