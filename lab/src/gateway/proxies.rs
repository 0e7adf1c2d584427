//! The proxies that Custody is measured beside: nginx, which only passes on, and LiteLLM's, which reads and routes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::child::ChildProgram;
use super::load::Target;
use super::product::free_port;
use super::texts::MODEL;
use crate::error::EvalError;

/// The key of LiteLLM's proxy, which does not start without a long one. nginx does not read it.
const KEY: &str = "sk-4f1c9a7be2d03586c1f7a92b60d5e834";

/// Another proxy in front of the same model.
pub(super) struct RunningProxy {
    program: ChildProgram,
    pub(super) chat: Target,
    pub(super) version: String,
    /// Removed last.
    _folder: TempDir,
}

/// The paths of what there is to measure beside Custody.
#[derive(Debug, Clone, Default)]
pub struct ProxyPrograms {
    /// `nginx`.
    pub nginx: Option<PathBuf>,
    /// `litellm`, with its proxy.
    pub litellm: Option<PathBuf>,
}

impl RunningProxy {
    /// nginx with a worker for each core, no access log and connections to the model that stay open.
    pub(super) fn nginx(program: &Path, upstream: &str) -> Result<Self, EvalError> {
        let (folder, port) = (folder()?, free_port()?);
        let server = upstream.trim_start_matches("http://");
        let config = folder.path().join("nginx.conf");
        let text = format!(
            "daemon off;\nworker_processes auto;\npid nginx.pid;\nerror_log stderr error;\nevents {{ worker_connections 1024; }}\n\
             http {{\n  access_log off;\n  client_max_body_size 64m;\n  client_body_buffer_size 16m;\n\
             \x20 client_body_temp_path body;\n  proxy_temp_path proxy;\n  fastcgi_temp_path fastcgi;\n\
             \x20 uwsgi_temp_path uwsgi;\n  scgi_temp_path scgi;\n  keepalive_requests 1000000;\n\
             \x20 upstream model {{ server {server}; keepalive 128; keepalive_requests 1000000; }}\n\
             \x20 server {{\n    listen 127.0.0.1:{port};\n    location / {{\n      proxy_pass http://model;\n\
             \x20     proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_buffering off;\n    }}\n  }}\n}}\n"
        );
        fs::write(&config, text).map_err(EvalError::file(&config))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder.path()).arg("-c").arg(&config);
        command.args(["-e", "stderr"]);
        Self::start("nginx", command, folder, port, version(program, "-v"))
    }

    /// LiteLLM's proxy as its documentation starts it, with a worker for each core and nothing that leaves the machine.
    pub(super) fn litellm(program: &Path, upstream: &str) -> Result<Self, EvalError> {
        let (folder, port) = (folder()?, free_port()?);
        let config = folder.path().join("config.yaml");
        let text = format!(
            "model_list:\n  - model_name: {MODEL}\n    litellm_params:\n      model: openai/{MODEL}\n\
             \x20     api_base: {upstream}/v1\n      api_key: none\nlitellm_settings:\n  telemetry: false\n\
             general_settings:\n  master_key: {KEY}\n"
        );
        fs::write(&config, text).map_err(EvalError::file(&config))?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&config).args(["--host", "127.0.0.1", "--port"]);
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        command.arg(port.to_string()).args(["--num_workers", &workers.to_string()]);
        command.current_dir(folder.path()).env("HOME", folder.path());
        command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_LOG", "ERROR");
        Self::start("LiteLLM's proxy", command, folder, port, version(program, "--version"))
    }

    fn start(
        name: &'static str,
        command: Command,
        folder: TempDir,
        port: u16,
        version: String,
    ) -> Result<Self, EvalError> {
        let log = folder.path().join("log");
        let mut program = ChildProgram::start(name, command, &log)?;
        program.wait_until_ready(&format!("http://127.0.0.1:{port}/health/liveliness"), &log)?;
        let chat = Target {
            url: format!("http://127.0.0.1:{port}/v1/chat/completions"),
            headers: vec![("authorization", format!("Bearer {KEY}"))],
        };
        Ok(Self { program, chat, version, _folder: folder })
    }

    pub(super) fn resident_mb(&self) -> f64 {
        self.program.resident_mb()
    }
}

fn folder() -> Result<TempDir, EvalError> {
    let folder = tempfile::tempdir().map_err(EvalError::file("the temporary folder"))?;
    // Workers of a proxy that root starts run as somebody else.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))
            .map_err(EvalError::file(folder.path()))?;
    }
    Ok(folder)
}

/// The first line with a digit that a program prints of its version.
fn version(program: &Path, flag: &str) -> String {
    let ran = Command::new(program).arg(flag).stdin(Stdio::null()).output();
    let said = ran.map_or(Vec::new(), |ran| [ran.stdout, ran.stderr].concat());
    let said = String::from_utf8_lossy(&said).into_owned();
    let line = said.lines().find(|line: &&str| line.contains(|c: char| c.is_ascii_digit()));
    line.unwrap_or("unknown version").trim().to_owned()
}
