//! A host program: speaks to a running `custody session`, line by line.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::{CUSTODY, Home, OWNER_PASSPHRASE, Ran};

pub const ADAS_PASSPHRASE: &str = "ada has a passphrase";

pub const TOOLS: &str = "[tools.send_mail]\neffect = 'writes'\n[tools.send_mail.arguments]\n\
    to = { sink = 'recipient' }\nbody = {}\n[tools.list_files]\neffect = 'reads'\n";

/// A running `custody session` with one session open in it.
pub struct Host {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    session: String,
}

impl Home {
    /// A home where ada is a user whose token is in `token.txt`, and whose tools are in `tools.toml`.
    pub fn of_ada() -> Self {
        let home = Self::founded();
        let add = ["principal", "add", "ada", "--role", "user", "--token"];
        let lines = [OWNER_PASSPHRASE, ADAS_PASSPHRASE, ADAS_PASSPHRASE];
        let token = home.typing(&add, &lines).expect(0).stdout;
        home.write_private("token.txt", &token);
        home.write("tools.toml", TOOLS);
        home
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// Writes a file that nobody else can read, as one with a token has to be.
    pub fn write_private(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        self.write(name, text);
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.path().join(name), private).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    /// Runs `custody session ARGS` without a terminal, and opens a session.
    pub fn host(&self, args: &str) -> Host {
        let mut command = Command::new("setsid");
        command.arg(CUSTODY);
        let args: Vec<&str> = ["session"].into_iter().chain(args.split_whitespace()).collect();
        self.prepare(&mut command, &args, &[]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut host = Host { child, lines, session: String::new() };
        let opened = host.says(br#"{"id":0,"op":"open"}"#);
        opened["session"].as_str().unwrap().clone_into(&mut host.session);
        host
    }
}

impl Host {
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Sends one line and reads one answer.
    pub fn says(&mut self, line: &[u8]) -> Value {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(&[line, b"\n"].concat()).unwrap();
        let answer = self.lines.next().expect("an answer").unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Asks for something in the session.
    pub fn asks(&mut self, op: &str, fields: &Value) -> Value {
        let mut line = json!({ "id": op, "op": op, "session": self.session });
        line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let answer = self.says(line.to_string().as_bytes());
        assert_eq!(answer["id"], op, "{answer}");
        answer
    }

    pub fn hears(&mut self, channel: &str, text: &str) {
        let told =
            self.asks("observe", &json!({ "kind": "message", "channel": channel, "text": text }));
        assert!(told["entries"].is_array(), "{told}");
    }

    pub fn proposes(&mut self, tool: &str, arguments: &Value) -> Value {
        self.asks("propose", &json!({ "call": { "tool": tool, "arguments": arguments } }))
    }

    /// Ends as by a power cut: nothing is closed or put away.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends by a signal that can be caught, and waits for that.
    pub fn end_by(mut self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().unwrap();
        assert!(sent.success());
        assert!(self.child.wait().unwrap().success());
    }

    /// Has nothing more to say. How the program ended; all answers were read.
    pub fn ends(mut self) -> Ran {
        drop(self.child.stdin.take());
        let stdout: Vec<String> = self.lines.map(Result::unwrap).collect();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Ran { code, stdout: stdout.concat(), stderr, terminal: String::new() }
    }
}
