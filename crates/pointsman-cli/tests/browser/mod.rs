//! A headless Chromium, driven through its DevTools protocol over a pipe.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take: a busy machine, not a hung browser.
const PATIENCE: Duration = Duration::from_secs(120);

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Chromium takes commands from descriptor 3 and answers on 4: what the shell makes of its own input
/// and output.
const SCRIPT: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    session: Option<String>,
    next: u64,
    loaded: bool,
    /// What the page complained of.
    pub(crate) errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one; `None`, and loudly, if there is none here. That is a failure if
    /// `POINTSMAN_TEST_BROWSER=required` says that there must be one.
    pub(crate) fn start() -> Option<Self> {
        let found = NAMES.iter().find(|name| {
            let asked = Command::new(name).arg("--version").output();
            asked.is_ok_and(|output| output.status.success())
        });
        let Some(name) = found else {
            let required = std::env::var("POINTSMAN_TEST_BROWSER").is_ok_and(|v| v == "required");
            assert!(!required, "no Chromium: apt-get install chromium");
            eprintln!(
                "SKIPPED: no Chromium, so that nobody looked at the page (apt-get install chromium)"
            );
            return None;
        };
        Some(Self::launch(name))
    }

    fn launch(name: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args([
            "-c",
            SCRIPT,
            name,
            "--headless",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            "--remote-debugging-pipe",
        ]);
        // Chromium's sandbox cannot be set up by root in a container.
        if rustix::process::getuid().is_root() {
            command.arg("--no-sandbox");
        }
        let mut child = command
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (sender, answers) = channel();
        // On a thread of its own: waiting for a pipe has no end.
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                message.pop();
                let read = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if sender.send(read).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Browser {
            child,
            commands,
            answers,
            session: None,
            next: 0,
            loaded: false,
            errors: Vec::new(),
            _profile: profile,
        };
        let target = browser.send("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.send("Target.attachToTarget", attach);
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.send(domain, json!({}));
        }
        browser
    }

    /// Sends a command and waits for its answer.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let bytes = format!("{message}\0");
        self.commands.write_all(bytes.as_bytes()).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The next message; what the page complains of is kept.
    fn receive(&mut self) -> Value {
        let waited = self.answers.recv_timeout(PATIENCE);
        let message = waited.expect("Chromium answers in time");
        let params = &message["params"];
        let loud = |level: &Value| level == "error" || level == "warning";
        let complains = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => loud(&params["type"]),
            Some("Log.entryAdded") => loud(&params["entry"]["level"]),
            _ => false,
        };
        if complains {
            self.errors.push(params.to_string());
        }
        self.loaded |= message["method"] == "Page.loadEventFired";
        message
    }

    /// The window: as wide as this, in this theme.
    pub(crate) fn window(&mut self, width: u32, theme: &str) {
        let size = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500
        });
        self.send("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.send("Emulation.setEmulatedMedia", features);
    }

    /// Opens an address and waits until it is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.loaded = false;
        let opened = self.send("Page.navigate", json!({ "url": url }));
        assert!(opened.get("errorText").is_none(), "{opened}");
        while !self.loaded {
            self.receive();
        }
    }

    /// What an expression gives in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let ask = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.send("Runtime.evaluate", ask);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.eval(expression) != true {
            assert!(Instant::now() < end, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
