//! `custody hook run`: the program that a host starts for its hook. Whatever goes wrong, it answers a denial.
//!
//! It opens no store and loads no configuration, so that it starts fast and depends on nothing that an agent can
//! change. Hosts let a call run when a hook takes too long, so it gives up well before that.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use custody_gateway::proxy::hook::{EVENT_HEADER, HookHost, HookOutput};

use super::super::agent_host::AgentHost;
use super::super::hook_command::TIMEOUT_S;
use super::super::local_service::{LocalService, ServiceDegraded};
use super::super::service_address::ServicePlace;
use crate::output::{ExitStatus, chain};
use crate::token_file;

/// The most bytes of a report.
const MAX_REPORT_BYTES: u64 = 16 << 20;
/// The most bytes of an answer.
const MAX_ANSWER_BYTES: u64 = 1 << 20;
/// How much of the host's time-out is used, in percent.
const PATIENCE_PERCENT: u32 = 40;

/// Answer one event of a host's hook: what `custody hook install` writes into the host's settings.
///
/// Reads the event on standard input and asks `custody serve` about it. When it cannot be asked, the answer is a
/// denial.
#[derive(Debug, Parser)]
#[command(name = "custody hook run", max_term_width = 100)]
pub(crate) struct Args {
    /// The host
    #[arg(value_enum)]
    host: AgentHost,
    /// The file with the key of the connection
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The event, as the host calls it
    #[arg(long, value_name = "NAME")]
    event: String,
    #[command(flatten)]
    service: ServicePlace,
    /// How long the host waits for the hook, in seconds; it answers in two fifths of that
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT_S)]
    timeout: u32,
}

/// Answers an event if these are the arguments of `custody hook run`, before anything else is read or opened.
pub(crate) fn intercept(arguments: &[OsString]) -> Option<ExitCode> {
    let [first, second, rest @ ..] = arguments else { return None };
    if first != "hook" || second != "run" {
        return None;
    }
    let name = [OsString::from("custody hook run")];
    Some(match Args::try_parse_from(name.iter().chain(rest)) {
        Ok(args) => ExitCode::from(give(&answer(args))),
        Err(error) => crate::output::usage(&error),
    })
}

/// As [`intercept`], when other arguments stand before it.
pub(super) fn run(args: Args) -> ExitStatus {
    match give(&answer(args)) {
        0 => ExitStatus::Success,
        _ => ExitStatus::Error,
    }
}

/// The answer of the service, or a denial if it does not come in time.
fn answer(args: Args) -> HookOutput {
    let (host, event) = (args.host.hook(), args.event.clone());
    let patience = Duration::from_secs(args.timeout.max(1).into()) * PATIENCE_PERCENT / 100;
    // A panic is an answer that does not come, and its text would stand before the reason.
    std::panic::set_hook(Box::new(|_| {}));
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(ask(&args)));
    let cause = match receiver.recv_timeout(patience) {
        Ok(Ok(output)) => return output,
        Ok(Err(error)) => match error.downcast_ref::<ServiceDegraded>() {
            Some(degraded) => return host.failed(&event, &cannot_record(degraded)),
            None => chain(error.as_ref()),
        },
        Err(RecvTimeoutError::Timeout) => format!("no answer within {} s", patience.as_secs_f32()),
        Err(RecvTimeoutError::Disconnected) => "it failed".to_owned(),
    };
    host.failed(&event, &no_answer(host, &cause))
}

/// What a person and a model read when Custody gives no answer.
fn no_answer(host: HookHost, cause: &str) -> String {
    let host = host.name();
    format!(
        "Custody is not answering, so this does not go on: {cause}. Start it with custody serve; custody hook uninstall \
         {host} takes the hook back."
    )
}

/// What they read when it answers that it cannot keep the record.
fn cannot_record(degraded: &ServiceDegraded) -> String {
    format!(
        "Custody is degraded, so this does not go on: {degraded}. Nothing does until that is mended; see custody doctor."
    )
}

/// Asks the service about the event on standard input.
fn ask(args: &Args) -> anyhow::Result<HookOutput> {
    let mut report = Vec::new();
    let read = std::io::stdin().take(MAX_REPORT_BYTES + 1).read_to_end(&mut report);
    read.context("the event on standard input could not be read")?;
    ensure!(
        report.len() as u64 <= MAX_REPORT_BYTES,
        "the event is longer than {MAX_REPORT_BYTES} bytes"
    );
    let service = LocalService::at(&args.service, token_file::read(&args.key)?, None)?;
    let path = format!("/hook/{}", args.host.hook().name());
    let headers = [(EVENT_HEADER, args.event.as_str())];
    let body = service.post(&path, &headers, &report, MAX_ANSWER_BYTES)?;
    checked(
        args.host,
        &args.event,
        serde_json::from_slice(&body).context("its answer is not understood")?,
    )
}

/// An answer that the host takes for what it says: some let a call run that is denied without a reason.
fn checked(host: AgentHost, event: &str, output: HookOutput) -> anyhow::Result<HookOutput> {
    let has_reason = !output.stderr.trim().is_empty();
    let has_answer = !output.stdout.trim().is_empty() || host != AgentHost::Cursor;
    let is_answer = match output.exit_code {
        0 => has_answer,
        2 => has_reason,
        _ => false,
    };
    ensure!(is_answer, "the host would not understand its answer to `{event}`");
    Ok(output)
}

/// Writes an answer, and returns its exit code. What cannot be written is a denial, too.
fn give(output: &HookOutput) -> u8 {
    let (mut out, mut error) = (std::io::stdout().lock(), std::io::stderr().lock());
    // Without standard error the reason is lost, and the exit code remains.
    let _ = error.write_all(output.stderr.as_bytes()).and_then(|()| error.flush());
    let written = out.write_all(output.stdout.as_bytes()).and_then(|()| out.flush());
    if written.is_ok() { output.exit_code } else { 2 }
}
