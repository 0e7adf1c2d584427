//! A user of its own for the service, so that an agent's shell can read neither its keys nor its store.
//!
//! What is to be done is a plan, which is printed, or done by root step by step. If a step fails, those before it are
//! taken back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::hook_command::quoted;

/// Where systemd looks for services that an administrator adds.
const UNITS: &str = "/etc/systemd/system";

/// The program that runs another as another user.
const RUNUSER: &str = "runuser";
/// Where that user finds programs. `runuser` itself is looked for there, too.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How a user of its own is made for the service, and taken away again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceUserPlan {
    user: String,
    home: PathBuf,
    program: String,
    unit: PathBuf,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlanStep {
    /// What it is for.
    why: &'static str,
    action: Action,
    /// What takes it back, if that is not done by what takes an earlier one back.
    back: Option<Action>,
}

/// Something that root does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    /// Runs a program.
    Run(Vec<String>),
    /// Runs `custody` as the service's user, with these arguments.
    Custody { user: String, home: PathBuf, program: String, arguments: Vec<&'static str> },
    /// Writes a file that is not there.
    Write { path: PathBuf, text: String },
    /// Removes a file that holds just this.
    Remove { path: PathBuf, text: String },
}

impl ServiceUserPlan {
    /// The plan for a user called `user`, with this program.
    ///
    /// # Errors
    /// When that is no name of a user, or the path of the program cannot stand in a unit of systemd.
    pub(super) fn new(user: &str, program: &Path) -> anyhow::Result<Self> {
        let starts = user.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let is_name = starts
            && user != "root"
            && user
                .bytes()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-".contains(&c));
        if !is_name {
            bail!(
                "`{user}` is not a name of a user; write lower-case letters, digits, `_` and `-`"
            );
        }
        let shown = program.display();
        let program = program.to_str().with_context(|| format!("`{shown}` is not UTF-8"))?;
        ensure!(
            program.bytes().all(is_plain),
            "`{shown}` has characters that systemd reads otherwise; copy the program to /usr/local/bin"
        );
        Ok(Self {
            user: user.to_owned(),
            home: Path::new("/var/lib").join(user),
            program: program.to_owned(),
            unit: Path::new(UNITS).join(format!("{user}.service")),
        })
    }

    /// The steps, in their order.
    pub(super) fn steps(&self) -> Vec<PlanStep> {
        let Self { user, home, unit, .. } = self;
        let home_shown = home.display().to_string();
        let service = format!("{user}.service");
        let mut add = words("useradd --system --home-dir");
        add.extend([home_shown.clone(), "--create-home".into(), "--shell".into()]);
        add.extend(["/usr/sbin/nologin".into(), user.clone()]);
        let mut close = words("chmod 700");
        close.push(home_shown);
        let [enable, disable, start, stop, remove] = [
            ("systemctl enable", &service),
            ("systemctl disable", &service),
            ("systemctl start", &service),
            ("systemctl stop", &service),
            ("userdel --remove", user),
        ]
        .map(|(command, last)| {
            let mut command = words(command);
            command.push(last.clone());
            command
        });
        let (path, text) = (unit.clone(), self.unit_text());
        vec![
            PlanStep {
                why: "a user who owns nothing else, and cannot log in",
                action: Action::Run(add),
                back: Some(Action::Run(remove)),
            },
            PlanStep {
                why: "nobody else reads its keys or its store",
                action: Action::Run(close),
                back: None,
            },
            PlanStep {
                why: "the store and its keys; asks for a passphrase, which no agent may see",
                action: self.custody(vec!["init"]),
                back: Some(self.custody(vec!["init", "--undo"])),
            },
            PlanStep {
                why: "the service runs as that user, and writes nowhere else",
                action: Action::Write { path: path.clone(), text: text.clone() },
                back: Some(Action::Remove { path, text }),
            },
            PlanStep {
                why: "it runs after every start of the machine",
                action: Action::Run(enable),
                back: Some(Action::Run(disable)),
            },
            PlanStep { why: "and now", action: Action::Run(start), back: Some(Action::Run(stop)) },
        ]
    }

    fn custody(&self, arguments: Vec<&'static str>) -> Action {
        let Self { user, home, program, .. } = self.clone();
        Action::Custody { user, home, program, arguments }
    }

    fn unit_text(&self) -> String {
        let Self { user, home, program, .. } = self;
        let home = home.display();
        format!(
            "[Unit]\nDescription=Custody gateway\nAfter=network.target\n\n[Service]\nUser={user}\nEnvironment=HOME={home}\n\
             ExecStart={program} serve\nRestart=on-failure\nNoNewPrivileges=true\nProtectSystem=strict\n\
             ReadWritePaths={home}\n\n[Install]\nWantedBy=multi-user.target\n"
        )
    }

    /// What connects a client then.
    pub(super) fn connect(&self) -> String {
        self.custody(vec!["connect", "claude-code"]).to_string()
    }

    /// The commands that make the user, for a root shell.
    pub(super) fn script(&self) -> String {
        let steps: Vec<String> =
            self.steps().iter().map(|step| format!("# {}\n{}", step.why, step.action)).collect();
        format!(
            "# A user of its own for the service: an agent's shell cannot read its keys or its store.\n{}\n# Then connect \
             clients as that user, and write what it prints into your own settings:\n{}",
            steps.join("\n"),
            self.connect()
        )
    }

    /// The commands that take it back.
    pub(super) fn undo_script(&self) -> String {
        let backs = self.steps().into_iter().rev().filter_map(|step| step.back);
        backs.map(|back| back.to_string()).collect::<Vec<_>>().join("\n")
    }

    /// Does it all, and takes back what was done if a step fails.
    pub(super) fn apply(&self) -> anyhow::Result<()> {
        ensure!(
            !self.unit.exists(),
            "`{}` is there already; take it back with `custody init --undo --service-user {}`",
            self.unit.display(),
            self.user
        );
        ensure!(
            is_open_to_all(Path::new(&self.program)),
            "another user cannot run `{}`; copy the program to /usr/local/bin, and run it from there",
            self.program
        );
        in_order(self.steps(), |action| action.perform())
    }

    /// Takes all of it back, and does again what was taken back if something cannot be: a store in which something was
    /// recorded stays, and its service runs.
    pub(super) fn take_back(&self) -> anyhow::Result<()> {
        // Only what this plan made is taken away, users included.
        let written = fs::read_to_string(&self.unit).ok();
        ensure!(
            written.as_deref() == Some(&self.unit_text()),
            "`{}` is not as `custody init --service-user {}` wrote it; what that made is yours to remove",
            self.unit.display(),
            self.user
        );
        in_order(reversed(self.steps()), |action| action.perform())
    }
}

/// The steps that take these back, each of which is taken back by what it took back.
fn reversed(steps: Vec<PlanStep>) -> Vec<PlanStep> {
    let reversed = steps.into_iter().rev().filter_map(|step| {
        let PlanStep { why, action, back } = step;
        Some(PlanStep { why, action: back?, back: Some(action) })
    });
    reversed.collect()
}

/// Performs the actions of steps in their order. If one fails, what was done before is taken back, the last first.
fn in_order(
    steps: Vec<PlanStep>,
    mut perform: impl FnMut(&Action) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut done: Vec<PlanStep> = Vec::new();
    for step in steps {
        let Err(error) = perform(&step.action) else {
            done.push(step);
            continue;
        };
        for back in done.iter().rev().filter_map(|step| step.back.as_ref()) {
            perform(back).with_context(|| {
                format!(
                    "this could not be taken back either, after `{}` failed: {error}",
                    step.action
                )
            })?;
        }
        let why = format!("`{}` failed, and what was done before it is taken back", step.action);
        return Err(error.context(why));
    }
    Ok(())
}

impl Action {
    fn perform(&self) -> anyhow::Result<()> {
        match self {
            Self::Run(words) => {
                let (program, arguments) = words.split_first().context("there is no command")?;
                run(Command::new(program).args(arguments))
            }
            Self::Custody { user, home, program, arguments } => {
                let mut command = Command::new(RUNUSER);
                command.args(["-u", user, "--", program]).args(arguments);
                // Nothing of root's environment says where the store is.
                command.env_clear().env("HOME", home).env("PATH", PATH);
                run(command.current_dir(home))
            }
            Self::Write { path, text } => {
                let file = fs::File::options().write(true).create_new(true).open(path);
                let written =
                    file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
                written.with_context(|| format!("could not write `{}`", path.display()))
            }
            Self::Remove { path, text } => {
                let shown = path.display();
                let now = fs::read_to_string(path);
                let now = now.with_context(|| format!("could not read `{shown}`"))?;
                ensure!(now == *text, "`{shown}` was changed since");
                fs::remove_file(path).with_context(|| format!("could not remove `{shown}`"))
            }
        }
    }
}

/// As whoever may become root types it.
impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(words) => write!(f, "sudo {}", words.join(" ")),
            Self::Custody { user, program, arguments, .. } => {
                write!(f, "sudo -u {user} -H {program} {}", arguments.join(" "))
            }
            Self::Write { path, text } => {
                write!(f, "sudo tee {} <<'END'\n{text}END", quoted_path(path))
            }
            Self::Remove { path, .. } => write!(f, "sudo rm {}", quoted_path(path)),
        }
    }
}

fn quoted_path(path: &Path) -> String {
    let shown = path.display().to_string();
    if shown.bytes().all(is_plain) { shown } else { quoted(&shown) }
}

/// Whether a character of a path means the same to a shell and to systemd.
fn is_plain(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"/._+-".contains(&c)
}

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().context("it could not be started")?;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

/// Whether everybody may run the program, and come to where it is.
#[cfg(unix)]
fn is_open_to_all(program: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    program
        .ancestors()
        .all(|path| fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o001 != 0))
}

#[cfg(not(unix))]
fn is_open_to_all(_: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> ServiceUserPlan {
        ServiceUserPlan::new("custody", Path::new("/usr/local/bin/custody")).unwrap()
    }

    /// What is performed if the `fails`th action does, and whether all was.
    fn performed(steps: Vec<PlanStep>, fails: usize) -> (Vec<String>, bool) {
        let mut done = Vec::new();
        let result = in_order(steps, |action| {
            let first = action.to_string().lines().next().unwrap_or_default().to_owned();
            done.push(first);
            if done.len() == fails + 1 { bail!("no") } else { Ok(()) }
        });
        (done, result.is_ok())
    }

    const MAKE: [&str; 6] = [
        "sudo useradd --system --home-dir /var/lib/custody --create-home --shell /usr/sbin/nologin custody",
        "sudo chmod 700 /var/lib/custody",
        "sudo -u custody -H /usr/local/bin/custody init",
        "sudo tee /etc/systemd/system/custody.service <<'END'",
        "sudo systemctl enable custody.service",
        "sudo systemctl start custody.service",
    ];
    const UNDO: [&str; 5] = [
        "sudo systemctl stop custody.service",
        "sudo systemctl disable custody.service",
        "sudo rm /etc/systemd/system/custody.service",
        "sudo -u custody -H /usr/local/bin/custody init --undo",
        "sudo userdel --remove custody",
    ];

    #[test]
    fn a_user_is_made_step_by_step_and_taken_away_in_the_other_order() {
        let steps = plan().steps();
        assert_eq!(performed(steps.clone(), 99), (MAKE.map(str::to_owned).to_vec(), true));
        let back = reversed(steps);
        assert_eq!(performed(back, 99), (UNDO.map(str::to_owned).to_vec(), true));
        assert_eq!(plan().undo_script(), UNDO.join("\n"));
    }

    #[test]
    fn what_fails_leaves_nothing_half_done() {
        // The store is not made: the user goes again.
        let (done, is_ok) = performed(plan().steps(), 2);
        assert_eq!(
            (done, is_ok),
            ([&MAKE[..3], &UNDO[4..]].concat().into_iter().map(str::to_owned).collect(), false)
        );
        // It does not start: all goes.
        let (done, _) = performed(plan().steps(), 5);
        assert_eq!(done, [&MAKE[..], &UNDO[1..]].concat());
        // Something was recorded: the service goes on, and its user stays.
        let (done, is_ok) = performed(reversed(plan().steps()), 3);
        assert_eq!(
            (done, is_ok),
            ([&UNDO[..4], &MAKE[3..]].concat().into_iter().map(str::to_owned).collect(), false)
        );
    }

    #[test]
    fn nothing_but_names_of_users_and_plain_paths_gets_into_a_command() {
        for user in ["", "a b", "$(id)", "Root", "x;y", "root", "-x", "../x"] {
            let refused = ServiceUserPlan::new(user, Path::new("/usr/bin/custody")).unwrap_err();
            assert!(refused.to_string().contains("is not a name of a user"), "{user}: {refused}");
        }
        for program in ["/home/a b/custody", "/opt/%h/custody", "/opt/$x/custody"] {
            let refused = ServiceUserPlan::new("custody", Path::new(program)).unwrap_err();
            assert!(refused.to_string().contains("/usr/local/bin"), "{program}: {refused}");
        }
    }

    #[test]
    fn a_unit_that_somebody_changed_is_not_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let changed = ServiceUserPlan { unit: folder.path().join("x.service"), ..plan() };
        for there in [None, Some("[Service]\nUser=somebody\n")] {
            if let Some(text) = there {
                fs::write(&changed.unit, text).unwrap();
            }
            let refused = changed.take_back().unwrap_err();
            assert!(refused.to_string().contains("is not as"), "{refused}");
        }
        let refused = changed.apply().unwrap_err();
        assert!(refused.to_string().contains("is there already"), "{refused}");
    }
}
