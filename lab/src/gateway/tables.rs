//! How the figures of the gateway stand side by side.

use super::growth::{bodies, entries};
use super::overhead::{LINES, LoadLine, SYSTEMS};
use crate::report::{EvalReport, Shows, Table, TableColumn, TableRow};
use crate::size::Size;

pub(super) fn tables(report: &EvalReport, size: Size) -> Vec<Table> {
    let mut tables: Vec<Table> = LINES.iter().map(|line| of_line(report, *line)).collect();
    tables.extend([inside(), growth(size), body(size)]);
    tables
}

fn columns(columns: &[(&str, &str)]) -> Vec<TableColumn> {
    let columns = columns.iter();
    columns.map(|(title, suffix)| TableColumn::new(*title, *suffix, Shows::Measured)).collect()
}

/// One kind of load: a row for each number of connections and system that was measured.
fn of_line(report: &EvalReport, line: LoadLine) -> Table {
    let rows = line.connections.iter().flat_map(|connections| {
        SYSTEMS.iter().filter_map(move |(id, name)| {
            let prefix = format!("{}.{id}.c{connections}", line.id);
            let is_measured = report.figure(&format!("{prefix}.rps")).is_some();
            is_measured.then(|| TableRow::new(format!("{connections}: {name}"), prefix))
        })
    });
    let note = match line.id {
        "overhead" => {
            "Microseconds that a client waits for a whole answer, from a model that answers at once: the unadjusted line. All \
             programs share the cores, the load and the model included."
        }
        "streamed" => "The same for an answer that comes as 17 events.",
        _ => {
            "The same for a model that takes 200 ms: 80 requests a second at most, as no program is at its limit."
        }
    };
    Table {
        title: line.id.to_owned(),
        note: note.to_owned(),
        rows_are: "connections".to_owned(),
        rows: rows.collect(),
        columns: columns(&[
            ("median", "p50_us"),
            ("99 %", "p99_us"),
            ("requests a second", "rps"),
            ("memory, MB", "rss_mb"),
            ("requests", "requests"),
        ]),
    }
}

const LOGGED: [(&str, &str); 4] = [
    ("inside, median", "inside_p50_us"),
    ("inside, 99 %", "inside_p99_us"),
    ("commits, median", "commit_p50_us"),
    ("commits, 99 %", "commit_p99_us"),
];

fn inside() -> Table {
    let rows = LINES.iter().flat_map(|line| {
        line.connections.iter().map(|connections| {
            let prefix = format!("{}.custody.c{connections}", line.id);
            TableRow::new(format!("{}, {connections}", line.id), prefix)
        })
    });
    Table {
        title: "inside Custody".to_owned(),
        note: "Microseconds, by the service's own log: without waiting for the model and for commits, but with waiting for a \
               processor and for locks. An exchange waits for several commits, one after another."
            .to_owned(),
        rows_are: "load, connections".to_owned(),
        rows: rows.collect(),
        columns: columns(&LOGGED),
    }
}

fn growth(size: Size) -> Table {
    let rows = entries(size)
        .iter()
        .map(|entries| TableRow::new(entries.to_string(), format!("growth.entries_{entries}")));
    let measured = [&LOGGED[..], &[("memory, MB", "rss_mb"), ("requests", "requests")]].concat();
    Table {
        title: "growth".to_owned(),
        note:
            "Microseconds of a short request with one new text, in a session with so many entries."
                .to_owned(),
        rows_are: "entries".to_owned(),
        rows: rows.collect(),
        columns: columns(&measured),
    }
}

fn body(size: Size) -> Table {
    let rows = bodies(size).iter().map(|bytes| {
        let kb = bytes / 1_000;
        TableRow::new(format!("{kb} kB"), format!("body.kb_{kb}"))
    });
    Table {
        title: "bodies".to_owned(),
        note: "Microseconds inside Custody, medians: the whole history new, and sent again with one new text.".to_owned(),
        rows_are: "body".to_owned(),
        rows: rows.collect(),
        columns: columns(&[
            ("new", "new.inside_p50_us"),
            ("sent again", "resent.inside_p50_us"),
            ("new requests", "new.requests"),
        ]),
    }
}
