//! A real witness on the loopback interface, asked by the real client and by hostile ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use common::{Log, cosigner, name, witness_of};
use custody_log::CosignerKey;
use custody_witness::{
    CosignError, LatestAnswerError, LatestError, ServerLimits, WitnessClient, WitnessNonce,
    WitnessServer, fresh_nonce,
};
use ed25519_dalek::SigningKey;

/// Serves these logs until the test ends.
fn serve(logs: &[&Log], limits: ServerLimits) -> (tempfile::TempDir, SocketAddr) {
    let (folder, witness) = witness_of(logs);
    let server = WitnessServer::bind("127.0.0.1:0".parse().unwrap(), witness, limits).unwrap();
    let address = server.address().unwrap();
    std::thread::spawn(move || server.run());
    (folder, address)
}

fn client(address: SocketAddr) -> WitnessClient {
    WitnessClient::new(format!("http://{address}").parse().unwrap(), cosigner())
}

/// Sends bytes, says that no more follow, and reads the status code of the answer; `None` when there is none.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(address).unwrap();
    // A server that has refused already may close before everything is sent.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    status(stream)
}

fn status(mut stream: TcpStream) -> Option<u16> {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

#[test]
fn g3_a_log_is_cosigned_as_it_grows_and_a_fork_is_not() {
    let log = Log::of("custody.log/a", 30);
    let (_folder, address) = serve(&[&log], ServerLimits::default());
    let client = client(address);
    for (known, size) in [(0, 4), (4, 9), (0, 9), (3, 17), (17, 17)] {
        let latest = client.cosign(&log.head(size), known, |old| log.proof(old, size)).unwrap();
        assert_eq!(latest.cosigned.checkpoint, log.head(size).checkpoint);
        assert_eq!(cosigner().verify(&latest.note).unwrap(), latest.cosigned);
        let answer = client.latest(&log.origin, fresh_nonce().unwrap()).unwrap().unwrap();
        assert_eq!(answer.cosigned.checkpoint.size, size);
    }
    let smaller = client.cosign(&log.head(9), 9, |old| log.proof(old, 9));
    assert!(matches!(smaller, Err(CosignError::Ahead { witness: 17, ours: 9 })), "{smaller:?}");
    for (fork, size) in [(log.forked_at(3), 30), (log.forked_at(16), 17)] {
        let forked = client.cosign(&fork.head(size), 17, |old| fork.proof(old, size));
        assert!(matches!(forked, Err(CosignError::Forked)), "{forked:?}");
    }
    let stranger = Log::of("custody.log/stranger", 3);
    let unknown = client.cosign(&stranger.head(3), 0, |old| stranger.proof(old, 3));
    assert!(matches!(unknown, Err(CosignError::UnknownLog)), "{unknown:?}");
    let unknown = client.latest(&stranger.origin, fresh_nonce().unwrap());
    assert!(matches!(unknown, Err(LatestError::UnknownLog)), "{unknown:?}");
    let latest = client.latest(&log.origin, fresh_nonce().unwrap()).unwrap().unwrap();
    assert_eq!(latest.cosigned.checkpoint.size, 17, "none of this moved it");
}

#[test]
fn g3_of_many_histories_that_arrive_at_once_one_is_cosigned() {
    let log = Log::of("custody.log/a", 30);
    let (_folder, address) = serve(&[&log], ServerLimits::default());
    client(address).cosign(&log.head(10), 0, |old| log.proof(old, 10)).unwrap();
    let histories: Vec<Log> = (10..18).map(|at| log.forked_at(at)).collect();
    let cosigned: Vec<Option<u64>> = std::thread::scope(|scope| {
        let submit = |(history, size): (&Log, u64)| {
            let cosigned =
                client(address).cosign(&history.head(size), 10, |old| history.proof(old, size));
            cosigned.ok().map(|latest| latest.cosigned.checkpoint.size)
        };
        let threads: Vec<_> =
            histories.iter().zip(20..).map(|each| scope.spawn(move || submit(each))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let accepted: Vec<u64> = cosigned.iter().flatten().copied().collect();
    assert_eq!(accepted.len(), 1, "{cosigned:?}");
    let latest = client(address).latest(&log.origin, fresh_nonce().unwrap()).unwrap().unwrap();
    assert_eq!(latest.cosigned.checkpoint.size, accepted[0]);
}

#[test]
fn g3_nobody_but_the_pinned_witness_answers() {
    let log = Log::of("custody.log/a", 5);
    let (_folder, address) = serve(&[&log], ServerLimits::default());
    let key = SigningKey::from_bytes(&[5; 32]).verifying_key();
    for other in [
        CosignerKey { key, ..cosigner() },
        CosignerKey { name: name("witness.example/w2"), ..cosigner() },
    ] {
        let client = WitnessClient::new(format!("http://{address}/").parse().unwrap(), other);
        let cosigned = client.cosign(&log.head(5), 0, |old| log.proof(old, 5));
        assert!(matches!(cosigned, Err(CosignError::NotCosigned)), "{cosigned:?}");
        let latest = client.latest(&log.origin, WitnessNonce::from_random([1; 32]));
        let is_refused = matches!(latest, Err(LatestError::Answer(LatestAnswerError::NotSigned)));
        assert!(is_refused, "{latest:?}");
    }
    // Nobody listens on a port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let latest = client(free).latest(&log.origin, WitnessNonce::from_random([1; 32]));
    assert!(matches!(latest, Err(LatestError::Unreachable(_))), "{latest:?}");
}

#[test]
fn g3_hostile_requests_end_their_own_connection_and_no_other() {
    let log = Log::of("custody.log/a", 5);
    let limits = ServerLimits { connections: 4, exchange: Duration::from_secs(2) };
    let (_folder, address) = serve(&[&log], limits);
    let huge = format!("POST /add-checkpoint HTTP/1.1\r\nContent-Length: {}\r\n\r\n", 1 << 30);
    let head = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(100_000));
    let cases: [(&[u8], Option<u16>); 6] = [
        (b"", None),
        (b"\x16\x03\x01\x02\x00\x01\x00", Some(400)),
        (huge.as_bytes(), Some(413)),
        (b"POST /add-checkpoint HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nff", Some(411)),
        (b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 3\r\n\r\nold", Some(400)),
        (b"GET / HTTP/1.1\r\n\r\n", Some(404)),
    ];
    for (bytes, expected) in cases {
        assert_eq!(exchange(address, bytes), expected, "{:.60}", String::from_utf8_lossy(bytes));
    }
    // What is sent beyond the limit may cost the client its answer, and never gets another.
    assert!(matches!(exchange(address, head.as_bytes()), Some(431) | None));

    // Clients that send half a request and wait take every place, and lose it when their time is over.
    let slow: Vec<TcpStream> = (0..limits.connections)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"POST /add-checkpoint HTTP/1.1\r\nContent-Le").unwrap();
            stream
        })
        .collect();
    // The last of the exchanges above may still have been on its way out, and then one of them got no place.
    let statuses: Vec<Option<u16>> = slow.into_iter().map(status).collect();
    let timed_out = statuses.iter().filter(|status| **status == Some(408)).count();
    assert!(timed_out + 1 >= limits.connections, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, Some(408 | 503))), "{statuses:?}");
    let client = client(address);
    let cosigned = loop {
        match client.cosign(&log.head(5), 0, |old| log.proof(old, 5)) {
            // The last of the slow ones may still be on its way out.
            Err(CosignError::Status { status: 503 }) => {}
            cosigned => break cosigned,
        }
    };
    assert_eq!(cosigned.unwrap().cosigned.checkpoint.size, 5);
}
