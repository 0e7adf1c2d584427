//! How the service is reached, and how it reaches vendors: certificates, names, proxies, addresses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use common::{ANSWER, CHAT, HELLO, Running, Vendor, answer, options, read_message};
use custody_gateway::proxy::GuardMode;
use custody_kernel::principal::Role;
use custody_service::settings::ConnectionEntry;
use custody_service::{
    Server, ServerError, ServerOptions, SessionModels, TlsFiles, UpstreamOptions,
};
use reqwest::{Certificate, Client};
use rustls::DigitallySignedStruct;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

/// A certificate for `name` that signs itself, as PEM files.
fn certificate(folder: &Path, name: &str) -> TlsFiles {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    TlsFiles { certificate, key }
}

fn entry(upstream: &str) -> ConnectionEntry {
    ConnectionEntry {
        mode: GuardMode::Guard,
        upstream: Some(upstream.to_owned()),
        ..Default::default()
    }
}

/// A vendor that answers one TLS connection after the other.
fn vendor_with_tls(files: &TlsFiles) -> SocketAddr {
    drop(rustls::crypto::ring::default_provider().install_default());
    let chain = vec![CertificateDer::from_pem_file(&files.certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream.unwrap());
            if !read_message(&mut BufReader::new(&mut stream)).trim().is_empty() {
                let _ = stream.write_all(answer("200 OK", "application/json", ANSWER));
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    address
}

#[test]
fn other_machines_reach_it_under_its_name_and_encrypted_only() {
    let vendor = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let folder = tempfile::tempdir().unwrap();
    let tls = certificate(folder.path(), "custody.example");
    let root = Certificate::from_pem(&std::fs::read(&tls.certificate).unwrap()).unwrap();
    let open = ServerOptions {
        address: "0.0.0.0:0".parse().unwrap(),
        tls: Some(tls),
        host_names: vec!["custody.example".to_owned()],
        ..options()
    };
    let running =
        Running::listening(entry(&format!("http://{}", vendor.address)), Role::User, open);
    let port = running.address.port();
    let here = SocketAddr::from(([127, 0, 0, 1], port));
    let client = Client::builder().tls_certs_only([root]).no_proxy();
    let client = client.resolve("custody.example", here).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (host, status) in [("custody.example", 200), ("evil.example", 403)] {
        let request = client
            .post(format!("https://custody.example:{port}{CHAT}"))
            .header("host", host)
            .header("x-custody-key", &running.token)
            .body(HELLO);
        let got = runtime.block_on(request.send()).unwrap();
        assert_eq!(got.status().as_u16(), status, "{host}");
    }
    assert_eq!(vendor.asked().len(), 1);
    let plain = running.chat(HELLO);
    assert!(!plain.contains("HTTP/1.1 200"), "what is not encrypted is not answered: {plain}");
}

/// The certificate that a new connection is shown.
fn shown(address: SocketAddr) -> Vec<u8> {
    drop(rustls::crypto::ring::default_provider().install_default());
    let verifier = Arc::new(Anybody(rustls::crypto::ring::default_provider()));
    let config = rustls::ClientConfig::builder().dangerous();
    let config = config.with_custom_certificate_verifier(verifier).with_no_client_auth();
    let name = "custody.example".try_into().unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    while session.is_handshaking() {
        session.complete_io(&mut stream).unwrap();
    }
    session.peer_certificates().unwrap()[0].to_vec()
}

/// Believes every certificate, to see which one is shown.
#[derive(Debug)]
struct Anybody(rustls::crypto::CryptoProvider);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[test]
fn a_new_certificate_is_shown_without_a_restart_and_one_that_is_none_leaves_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certificate(folder.path(), "custody.example");
    let (certificate_file, key_file) = (tls.certificate.clone(), tls.key.clone());
    let of_file = || CertificateDer::from_pem_file(&certificate_file).unwrap().to_vec();
    let open = ServerOptions { tls: Some(tls), ..options() };
    let running = Running::listening(entry("http://127.0.0.1:9"), Role::User, open);
    let first = of_file();
    assert_eq!(shown(running.address), first);

    let next = tempfile::tempdir().unwrap();
    let next = certificate(next.path(), "custody.example");
    // As renewals do it: one file after the other, each put in the place of the one before.
    let put = |from: &Path, to: &Path| {
        let beside = to.with_extension("new");
        std::fs::copy(from, &beside).unwrap();
        std::fs::rename(beside, to).unwrap();
    };
    put(&next.certificate, &certificate_file);
    assert_eq!(shown(running.address), first, "its key is not there yet");
    put(&next.key, &key_file);
    let second = of_file();
    assert_ne!(first, second);
    assert_eq!(shown(running.address), second);

    for broken in ["", "no certificate"] {
        std::fs::write(&certificate_file, broken).unwrap();
        assert_eq!(shown(running.address), second, "{broken}");
    }
    std::fs::remove_file(&certificate_file).unwrap();
    assert_eq!(shown(running.address), second, "nothing is there");
    // Written over in place, with the same key.
    std::fs::copy(&next.certificate, &certificate_file).unwrap();
    assert_eq!(shown(running.address), second);
}

#[test]
fn a_certificate_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = certificate(folder.path(), "custody.example");
    let missing = TlsFiles { certificate: folder.path().join("none.pem"), ..good.clone() };
    let swapped = TlsFiles { certificate: good.key.clone(), key: good.certificate.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let running = Running::new(entry("http://127.0.0.1:9"), Role::User);
    for files in [missing, swapped] {
        let open = ServerOptions { tls: Some(files), ..options() };
        let store = running.scratch.store.clone();
        let bound =
            runtime.block_on(Server::bind(open, store, "none".into(), SessionModels::default()));
        assert!(matches!(bound, Err(ServerError::Tls(_))));
    }
    let taken = ServerOptions { address: running.address, ..options() };
    let store = running.scratch.store.clone();
    let bound =
        runtime.block_on(Server::bind(taken, store, "none".into(), SessionModels::default()));
    assert!(matches!(bound, Err(ServerError::Taken(_))));
}

#[test]
fn a_vendor_is_believed_if_a_root_of_the_options_signed_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificate(folder.path(), "localhost");
    let vendor = vendor_with_tls(&files);
    let upstream = format!("https://localhost:{}", vendor.port());
    let stranger = Running::new(entry(&upstream), Role::User).chat(HELLO);
    assert!(stranger.starts_with("HTTP/1.1 502"), "{stranger}");
    let ca = UpstreamOptions { ca: Some(files.certificate), proxy: None };
    let known = Running::listening(
        entry(&upstream),
        Role::User,
        ServerOptions { upstream: ca, ..options() },
    );
    let got = known.chat(HELLO);
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
}

#[test]
fn requests_go_through_the_outgoing_proxy_but_not_to_this_machine() {
    let proxy = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let near = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let through = || ServerOptions {
        upstream: UpstreamOptions { ca: None, proxy: Some(format!("http://{}", proxy.address)) },
        ..options()
    };
    let near_url = format!("http://{}", near.address);
    for upstream in ["http://vendor.example", &near_url, "http://metadata.google.internal"] {
        let running = Running::listening(entry(upstream), Role::User, through());
        let got = running.chat(HELLO);
        let is_refused = upstream.contains("metadata");
        assert_eq!(got.starts_with("HTTP/1.1 200"), !is_refused, "{upstream}: {got}");
    }
    let asked = proxy.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].starts_with("POST http://vendor.example/v1/chat/completions "), "{asked:?}");
    assert_eq!(near.asked().len(), 1);
}

#[test]
fn nothing_goes_to_a_link_local_address_unless_the_owner_said_so() {
    for upstream in ["http://169.254.169.254", "http://[fe80::1]", "http://[::ffff:a9fe:a9fe]"] {
        let got = Running::new(entry(upstream), Role::User).chat(HELLO);
        assert!(got.starts_with("HTTP/1.1 502"), "{got}");
        assert!(got.contains("link-local"), "{got}");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Vendor::new(answer("200 OK", "application/json", ANSWER));
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        elsewhere.address
    );
    let vendor = Vendor::new(redirect.into_bytes().leak());
    let got = Running::of(&vendor, GuardMode::Guard).chat(HELLO);
    assert!(got.starts_with("HTTP/1.1 307"), "{got}");
    assert!(elsewhere.asked().is_empty());
}
