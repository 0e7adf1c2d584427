//! A running witness: the real `custody witness serve`, on a free port of the loopback interface.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::{CUSTODY, Home};

/// A witness that ends with the test, or when it is stopped.
pub struct Witness {
    child: Child,
    pub url: String,
    pub key: String,
}

impl Home {
    /// Makes a witness in `folder`, and has it serve this home's store.
    pub fn witness(&self, folder: &str) -> Witness {
        let name = format!("witness.example/{folder}");
        self.alone(&["witness", "init", "--state", folder, "--name", &name]).expect(0);
        self.add_log(folder);
        self.serve(folder)
    }

    /// Has the witness in `folder` serve this home's store.
    pub fn add_log(&self, folder: &str) {
        let keys = &self.alone(&["keys", "show", "--json"]).expect(0).json()[0]["founded"];
        let origin = format!("custody.log/{}", keys["store_id"].as_str().unwrap());
        let key = keys["vkey"].as_str().unwrap();
        let add = ["witness", "add-log", "--state", folder, "--origin", &origin, "--key", key];
        self.alone(&add).expect(0);
    }

    /// Starts the witness in `folder`, on a free port.
    pub fn serve(&self, folder: &str) -> Witness {
        self.serve_at(folder, "127.0.0.1:0")
    }

    /// Starts the witness in `folder`.
    pub fn serve_at(&self, folder: &str, address: &str) -> Witness {
        let mut command = Command::new(CUSTODY);
        let args = ["witness", "serve", "--state", folder, "--listen", address];
        self.prepare(&mut command, &args, &[]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (url, key) = line.trim().split_once(' ').expect("an address and a key");
        Witness { url: url.to_owned(), key: key.to_owned(), child }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
