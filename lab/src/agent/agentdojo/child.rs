//! The package, as a child of this process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use tempfile::NamedTempFile;

use super::Python;
use crate::error::EvalError;
use crate::size::Size;

/// The longest line that is read from it, in bytes.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// What to do when the package is missing.
const INSTALL: &str = "install it with `pip install agentdojo==0.1.35`, and name an interpreter that has it in \
     CUSTODY_PYTHON";

/// A running package. Dropped, it is ended.
pub(super) struct Child {
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    // Kept until the package has ended.
    _intents: Option<NamedTempFile>,
}

impl Child {
    /// Starts it. `intents` are what it declares, if it is to.
    pub(super) fn start(
        python: &Python,
        size: Size,
        intents: Option<&str>,
    ) -> Result<Self, EvalError> {
        let mut command = Command::new(&python.interpreter);
        command.args(["-m", "custody_agentdojo.measure", "--size", size.id()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let intents = intents.map(written).transpose()?;
        if let Some(file) = &intents {
            command.arg("--intents").arg(file.path());
        }
        if let Some(package) = &python.package {
            command.env("PYTHONPATH", package);
        }
        let mut process = command.spawn().map_err(|_| {
            EvalError::Package(format!("AgentDojo could not be started; {INSTALL}"))
        })?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(EvalError::Setup("the package has no standard streams".into()));
        };
        Ok(Self { process, input: Some(input), output: BufReader::new(output), _intents: intents })
    }

    /// Its next line, or nothing when it has ended.
    pub(super) fn line(&mut self) -> Result<Option<String>, EvalError> {
        let mut line = String::new();
        let read = self.output.by_ref().take(MAX_LINE_BYTES).read_line(&mut line);
        let read =
            read.map_err(|cause| EvalError::Setup(format!("AgentDojo's package: {cause}")))?;
        Ok((read > 0).then_some(line))
    }

    /// Answers it.
    pub(super) fn answer(&mut self, line: &str) -> Result<(), EvalError> {
        let input = self.input.as_mut();
        let written = input.map(|input| writeln!(input, "{line}").and_then(|()| input.flush()));
        if matches!(written, Some(Ok(()))) {
            return Ok(());
        }
        Err(EvalError::Package("AgentDojo's package ended early; see its messages above".into()))
    }

    /// Waits for its end.
    pub(super) fn end(mut self) -> Result<(), EvalError> {
        drop(self.input.take());
        let status = self.process.wait();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(EvalError::Package(format!(
                "AgentDojo's package ended with {status}; if it is missing, {INSTALL}"
            ))),
            Err(cause) => Err(EvalError::Setup(format!("AgentDojo's package: {cause}"))),
        }
    }
}

/// The intents in a file, as the package reads them.
fn written(text: &str) -> Result<NamedTempFile, EvalError> {
    let file = NamedTempFile::new();
    let mut file = file.map_err(EvalError::file(std::env::temp_dir()))?;
    let path = file.path().to_owned();
    file.write_all(text.as_bytes()).map_err(EvalError::file(path))?;
    Ok(file)
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.input.take());
        // It has ended, or is not wanted any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
