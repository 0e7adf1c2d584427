//! `custody ledger show`: the record as a list, and all about one of its entries.

use anyhow::Context as _;
use custody_incident::Incidents;
use custody_kernel::record::{Answer, Author, Record};
use custody_log::{Seq, SessionId, leaf_hash, verify_inclusion};
use custody_runtime::Store;
use serde_json::json;

use super::Entry;
use super::describe::{CHUNK, Names, kept_content, proof};
use super::kind::Kind;
use super::part::Part;
use crate::context::GlobalContext;
use crate::output::{
    BAD, BOLD, DIM, ExitStatus, GOOD, HEAD, WARN, answer_style, cell, count, excerpt, json_line,
    line, moment, paint, shown, table,
};

/// The most children that are listed one by one.
const MAX_CHILDREN: usize = 20;
/// The most of a content that is shown, in characters.
const MAX_CONTENT_CHARS: usize = 4_000;

/// List what was recorded, the newest last, or show all about one record.
///
/// Every line is one decision: its position, when, who asked, for what, what was answered and by which
/// rule, and what is known of the entry: where it entered, and whether it is tainted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One entry, by its position (`12`) or id: show all about it
    #[arg(conflicts_with_all = ["limit", "refused", "pending", "namespace", "session", "kind"])]
    entry: Option<Entry>,
    /// The most records to list
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Only what was refused
    #[arg(long, conflicts_with = "pending")]
    refused: bool,
    /// Only what had to wait for a reviewer
    #[arg(long)]
    pending: bool,
    /// Only what is about this tenant, `TENANT/shared` or `TENANT/SESSION`
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<Part>,
    /// Only what was asked in this session
    #[arg(long, value_name = "SESSION")]
    session: Option<SessionId>,
    /// Only records of this kind
    #[arg(long, value_enum)]
    kind: Option<Kind>,
}

pub(super) fn run(context: &GlobalContext, args: &Args) -> anyhow::Result<ExitStatus> {
    let store = context.open()?;
    match args.entry {
        Some(entry) => one(context, &store, entry.find(&store)?),
        None => list(context, &store, args),
    }
}

fn list(context: &GlobalContext, store: &Store, args: &Args) -> anyhow::Result<ExitStatus> {
    let mut names = Names::new(store)?;
    let mut chosen = Vec::new();
    let (mut end, total) = store.root().map(|(size, _)| (size, size))?;
    while end > 0 && chosen.len() < args.limit {
        let start = end.saturating_sub(CHUNK);
        for record in store.records(start..end)?.into_iter().rev() {
            if chosen.len() < args.limit && fits(&mut names, args, &record)? {
                chosen.push(record);
            }
        }
        end = start;
    }
    chosen.reverse();
    let mut rows = Vec::new();
    for record in &chosen {
        let (who, what) = (names.asker(&record.by)?, names.what(record)?);
        if context.json {
            let part = names.part(record)?.map(|part| part.to_string());
            json_line(&summary(record, &who, &what, part.as_deref()))?;
            continue;
        }
        let text = kept_content(store, record)?;
        let text = text.map(|text| excerpt(&String::from_utf8_lossy(&text), 32));
        let what = text.map_or(what.clone(), |text| format!("{what}: {text}"));
        rows.push(row(record, who, what));
    }
    if !context.json {
        if rows.is_empty() {
            line("Nothing of that kind is recorded.");
        } else {
            table(&["entry", "when", "who", "what", "answer", "label"], &rows);
            line(paint(DIM, format_args!("{} of {}", rows.len(), count(total, "record"))));
        }
    }
    Ok(ExitStatus::Success)
}

fn fits(names: &mut Names<'_>, args: &Args, record: &Record) -> anyhow::Result<bool> {
    let asked_in = match (&args.session, &record.by) {
        (None, _) => true,
        (Some(wanted), Author::Session(session)) => wanted == session,
        (Some(_), Author::Principal(_)) => false,
    };
    let answered = (!args.refused || matches!(record.answer, Answer::Refused(_)))
        && (!args.pending || matches!(record.answer, Answer::Pending { .. }));
    let kind = args.kind.is_none_or(|kind| kind == Kind::of(&record.request));
    if !(asked_in && answered && kind) {
        return Ok(false);
    }
    let Some(wanted) = &args.namespace else { return Ok(true) };
    Ok(names.part(record)?.is_some_and(|part| wanted.holds(&part)))
}

fn row(record: &Record, who: String, what: String) -> Vec<(String, anstyle::Style)> {
    let word = record.answer.word();
    let answer = match record.answer.refusal() {
        Some(refusal) => format!("{word}, {}", refusal.rule()),
        None => word.to_owned(),
    };
    let label = if record.label.is_tainted() { WARN } else { anstyle::Style::new() };
    vec![
        (record.seq.to_string(), BOLD),
        (moment(record.at), DIM),
        cell(who),
        cell(what),
        (answer, answer_style(word)),
        (record.label.to_string(), label),
    ]
}

fn summary(record: &Record, who: &str, what: &str, part: Option<&str>) -> serde_json::Value {
    let refusal = record.answer.refusal();
    json!({
        "seq": record.seq,
        "id": record.id,
        "at": moment(record.at),
        "who": who,
        "what": what,
        "namespace": part,
        "answer": record.answer.word(),
        "rule": refusal.map(|refusal| refusal.rule().to_string()),
        "reason": refusal.map(ToString::to_string),
        "tainted": record.label.is_tainted(),
        "record": record,
    })
}

fn one(context: &GlobalContext, store: &Store, seq: Seq) -> anyhow::Result<ExitStatus> {
    let mut names = Names::new(store)?;
    let record = store.record(seq)?;
    let (who, what) = (names.asker(&record.by)?, names.what(&record)?);
    let part = names.part(&record)?.map(|part| part.to_string());
    let content = kept_content(store, &record)?;
    let children = store.children(seq)?;
    let (hashes, signed) = store.inclusion(seq)?;
    let (size, root) = (signed.checkpoint.size, signed.checkpoint.root);
    verify_inclusion(&leaf_hash(&record.to_bytes()?), seq.0, size, &hashes, &root)
        .context("the record is not in the log")?;
    if context.json {
        let mut all = summary(&record, &who, &what, part.as_deref());
        if let Some(all) = all.as_object_mut() {
            let text = content.as_deref().map(String::from_utf8_lossy);
            all.insert("content".into(), json!(text));
            all.insert("children".into(), json!(children));
            let hashes: Vec<String> = hashes.iter().map(hex::encode).collect();
            all.insert("inclusion_proof".into(), json!(hashes));
            all.insert("checkpoint".into(), json!(signed.note));
        }
        json_line(&all)?;
        return Ok(ExitStatus::Success);
    }
    heading(&mut names, &record, &who, &what, part.as_deref())?;
    relatives(store, &mut names, "made from", &record.parents)?;
    relatives(store, &mut names, "under", &Incidents::of(store).brought_to(&record)?)?;
    relatives(store, &mut names, "made into", &children)?;
    print_content(content.as_deref());
    let proof = hashes.len();
    let intact = paint(GOOD, "in the log");
    field(
        "recorded",
        format_args!("{intact}: its proof ({proof} hashes) leads to the signed root"),
    );
    field("", format_args!("{} over {}", paint(DIM, hex::encode(root)), count(size, "record")));
    Ok(ExitStatus::Success)
}

fn field(name: &str, value: impl std::fmt::Display) {
    line(format_args!("{} {value}", paint(DIM, format_args!("{name:10}"))));
}

fn heading(
    names: &mut Names<'_>,
    record: &Record,
    who: &str,
    what: &str,
    part: Option<&str>,
) -> anyhow::Result<()> {
    line(format_args!("{} {}", paint(HEAD, record.seq), paint(BOLD, what)));
    field("id", record.id);
    field("when", moment(record.at));
    let opener = match &record.by {
        Author::Principal(who) => Some(who.clone()),
        Author::Session(session) => names.opener(*session)?,
    };
    let proven = opener.map_or("unproven", |who| proof(who.credential));
    match &record.by {
        Author::Principal(_) => field("who", format_args!("{who}, {proven}")),
        Author::Session(session) => field("who", format_args!("{who}, {proven}, in {session}")),
    }
    if let Some(part) = part {
        field("where", part);
    }
    let word = record.answer.word();
    let answer = paint(answer_style(word), word);
    match record.answer.refusal() {
        None => field("answer", answer),
        Some(refusal) => {
            field("answer", format_args!("{answer} by {}: {refusal}", refusal.rule()));
        }
    }
    match &record.answer {
        Answer::Pending { expires, .. } => field("until", moment(*expires)),
        Answer::Value { version, .. } => field("version", version),
        Answer::Done | Answer::NotFound | Answer::Refused(_) => {}
    }
    let label = record.label.to_string();
    field("label", if record.label.is_tainted() { paint(WARN, label) } else { label });
    if let Some(before) = record.after {
        field("before it", format_args!("{before} changed the same item"));
    }
    for note in &record.advice {
        field("noticed", paint(WARN, excerpt(&note.to_string(), 120)));
    }
    Ok(())
}

fn relatives(
    store: &Store,
    names: &mut Names<'_>,
    title: &str,
    relatives: &[Seq],
) -> anyhow::Result<()> {
    for (position, seq) in relatives.iter().take(MAX_CHILDREN).enumerate() {
        let relative = store.record(*seq)?;
        let taint =
            if relative.label.is_tainted() { paint(WARN, ", tainted") } else { String::new() };
        let title = if position == 0 { title } else { "" };
        field(title, format_args!("{} {}{taint}", paint(BOLD, seq), names.what(&relative)?));
    }
    if let Some(more) = relatives.len().checked_sub(MAX_CHILDREN).filter(|more| *more > 0) {
        field("", format_args!("and {more} more; see `custody ledger trace`"));
    }
    Ok(())
}

fn print_content(content: Option<&[u8]>) {
    let Some(content) = content else { return };
    let text = String::from_utf8_lossy(content);
    let note = match &text {
        std::borrow::Cow::Borrowed(_) => String::new(),
        std::borrow::Cow::Owned(_) => paint(BAD, ", not all of it UTF-8"),
    };
    field("content", format_args!("{} bytes{note}", content.len()));
    let cut: String = text.chars().take(MAX_CONTENT_CHARS).collect();
    for text in shown(&cut).lines() {
        line(format_args!("  {} {text}", paint(DIM, "│")));
    }
    if cut.len() < text.len() {
        line(paint(DIM, "  … `custody ledger export --contents` has all of it"));
    }
}
