//! What goes wrong between a client, the service, a vendor and the disk: nothing goes on undecided, nothing is
//! recorded as checked that was not, and nothing acknowledged is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{ANSWER, CHAT, HELLO, Running, Vendor, answer};
use custody_gateway::proxy::GuardMode;
use custody_runtime::advice::Coverage;

const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// An event that says `text`.
fn event(text: &str) -> String {
    let delta = serde_json::json!({"content": text});
    let choice = serde_json::json!({"index": 0, "delta": delta, "finish_reason": null});
    format!("data: {}\n\n", serde_json::json!({"choices": [choice]}))
}

fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    write!(stream, "{:x}\r\n", bytes.len())?;
    stream.write_all(bytes)?;
    stream.write_all(b"\r\n")
}

/// Reads until `text` has come.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&got).contains(text) {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            length => got.extend_from_slice(&buffer[..length]),
        }
    }
    String::from_utf8_lossy(&got).into_owned()
}

#[test]
fn a_slow_stream_goes_on_event_by_event() {
    let (received, is_received) = channel::<()>();
    let is_received = Arc::new(Mutex::new(is_received));
    let vendor = Vendor::scripted(move |stream, _| {
        stream.write_all(HEAD.as_bytes()).unwrap();
        chunk(stream, event("first").as_bytes()).unwrap();
        // The rest is said only once the client has the beginning.
        is_received.lock().unwrap().recv().unwrap();
        chunk(stream, event("second").as_bytes()).unwrap();
        chunk(stream, b"data: [DONE]\n\n").unwrap();
        stream.write_all(b"0\r\n\r\n").unwrap();
    });
    let running = Running::of(&vendor, GuardMode::Guard);
    let mut client = running.begin(&running.head(CHAT, &running.headers()), HELLO.as_bytes());
    assert!(read_until(&mut client, "first").contains("first"));
    received.send(()).unwrap();
    let rest = read_until(&mut client, "0\r\n\r\n");
    assert!(rest.contains("second") && rest.contains("[DONE]"), "{rest}");
    assert_eq!(running.coverages(), [Coverage::Checked]);
}

#[test]
fn a_character_that_is_cut_in_two_goes_on_and_one_that_is_none_does_not() {
    for (tail, is_good) in [([0xc3, 0xa9], true), ([0xc3, 0x28], false)] {
        let vendor = Vendor::scripted(move |stream, _| {
            let (mut before, after) = (event("caf"), "\"},\"finish_reason\":null}]}\n\n");
            before.truncate(before.find("caf").unwrap() + 3);
            before.insert_str(0, &event("Hm."));
            let pieces: [&[u8]; 5] =
                [before.as_bytes(), &tail[..1], &tail[1..], after.as_bytes(), b"data: [DONE]\n\n"];
            stream.write_all(HEAD.as_bytes()).unwrap();
            for piece in pieces {
                let _ = chunk(stream, piece);
            }
            let _ = stream.write_all(b"0\r\n\r\n");
        });
        let running = Running::of(&vendor, GuardMode::Guard);
        let got = running.chat(HELLO);
        assert!(got.contains("Hm."), "{got}");
        assert_eq!(got.contains("caf\u{e9}") && got.contains("[DONE]"), is_good, "{got}");
        assert_eq!(got.contains("\"error\""), !is_good, "{got}");
        let coverage = if is_good { Coverage::Checked } else { Coverage::Partly };
        assert_eq!(running.coverages(), [coverage]);
    }
}

#[test]
fn an_answer_that_is_too_long_does_not_go_on() {
    let whole = Vendor::scripted(|stream, _| {
        let length = 65 << 20;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        let _ = stream.write_all(head.as_bytes());
        for _ in 0..65 {
            if stream.write_all(&[b' '; 1 << 20]).is_err() {
                return;
            }
        }
    });
    let running = Running::of(&whole, GuardMode::Guard);
    let got = running.chat(HELLO);
    assert!(got.starts_with("HTTP/1.1 502"), "{got}");
    assert_eq!(running.coverages(), []);

    let call = Vendor::scripted(|stream, _| {
        let piece = serde_json::json!({"choices": [{"index": 0, "delta": {"tool_calls": [{
            "index": 0, "id": "1", "function": {"name": "send", "arguments": " ".repeat(1 << 20)}}]}}]});
        let _ = stream.write_all(HEAD.as_bytes());
        for _ in 0..10 {
            if chunk(stream, format!("data: {piece}\n\n").as_bytes()).is_err() {
                return;
            }
        }
        let _ = stream.write_all(b"0\r\n\r\n");
    });
    let running = Running::of(&call, GuardMode::Guard);
    let got = running.chat(HELLO);
    assert!(got.contains("cannot be decided") && !got.contains("\"send\""), "{got:.2000}");
    assert_eq!(running.coverages(), [Coverage::Partly]);
}

#[test]
fn a_client_that_leaves_is_also_left_at_the_vendor() {
    let (left, is_left) = channel::<()>();
    let left: Arc<Mutex<Sender<()>>> = Arc::new(Mutex::new(left));
    let vendor = Vendor::scripted(move |stream, _| {
        let _ = stream.write_all(HEAD.as_bytes());
        while chunk(stream, event("and on ").as_bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        left.lock().unwrap().send(()).unwrap();
    });
    let running = Running::of(&vendor, GuardMode::Guard);
    let mut client = running.begin(&running.head(CHAT, &running.headers()), HELLO.as_bytes());
    read_until(&mut client, "and on");
    client.shutdown(Shutdown::Both).unwrap();
    drop(client);
    is_left.recv().unwrap();
}

#[test]
fn while_another_program_holds_the_store_nothing_goes_on_and_nothing_is_lost() {
    let vendor = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let running = Running::of(&vendor, GuardMode::Guard);
    let other = rusqlite::Connection::open(running.scratch.store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| running.chat(HELLO));
        std::thread::sleep(Duration::from_millis(500));
        assert!(vendor.asked().is_empty(), "what is not recorded does not go on");
        other.execute_batch("ROLLBACK").unwrap();
        let got = asking.join().unwrap();
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    });
    assert_eq!(running.coverages(), [Coverage::Checked]);

    // For longer than anybody waits.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let got = running.chat(HELLO);
    assert!(got.starts_with("HTTP/1.1 503") && got.contains("record"), "{got}");
    assert_eq!(vendor.asked().len(), 1);
    let ready = running.send(&format!("GET /readyz HTTP/1.1\r\nHost: {}", running.address), b"");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("degraded"), "{ready}");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(running.chat(HELLO).starts_with("HTTP/1.1 200"));
    let ready = running.send(&format!("GET /readyz HTTP/1.1\r\nHost: {}", running.address), b"");
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
}

#[test]
fn what_has_begun_ends_before_the_service_does() {
    let vendor = Vendor::scripted(|stream, _| {
        std::thread::sleep(Duration::from_millis(20));
        let _ = stream.write_all(answer("200 OK", "application/json", ANSWER));
    });
    let mut running = Running::of(&vendor, GuardMode::Guard);
    let (sent, answered, broken) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let (address, head) = (running.address, running.head(CHAT, &running.headers()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                // Until nobody listens any more.
                while let Ok(mut stream) = TcpStream::connect(address) {
                    sent.fetch_add(1, Ordering::SeqCst);
                    let length = HELLO.len();
                    let request = format!(
                        "{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{HELLO}"
                    );
                    let mut got = String::new();
                    let is_sent = stream.write_all(request.as_bytes()).is_ok();
                    let is_read = stream.read_to_string(&mut got).is_ok();
                    let count = match (is_sent && is_read, got.as_str()) {
                        (true, got) if got.ends_with(ANSWER) => &answered,
                        // It was connected, and not taken any more.
                        (_, "") => continue,
                        _ => &broken,
                    };
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while answered.load(Ordering::SeqCst) < 40 {
            std::thread::sleep(Duration::from_millis(1));
        }
        running.end();
    });
    running.wait();
    let (answered, broken) = (answered.into_inner(), broken.into_inner());
    assert_eq!(broken, 0, "of {}", sent.into_inner());
    let recorded = running.coverages();
    assert!(recorded.len() >= answered, "{answered} answers, {} records", recorded.len());
    assert!(recorded.iter().all(|coverage| *coverage == Coverage::Checked));
}
