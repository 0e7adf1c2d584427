//! Policies to start from, each with the cases that show what it does.

/// A policy that ships.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// The name on the command line.
    pub name: &'static str,
    /// The effect, in one line.
    pub description: &'static str,
    /// The Cedar text.
    pub text: &'static str,
    /// The file of cases for [`run_cases`](crate::run_cases), tools included.
    pub cases: &'static str,
}

macro_rules! example {
    ($name:literal, $description:literal) => {
        Example {
            name: $name,
            description: $description,
            text: include_str!(concat!("../policies/", $name, ".cedar")),
            cases: include_str!(concat!("../policies/", $name, ".toml")),
        }
    };
}

static EXAMPLES: [Example; 10] = [
    Example {
        name: "balanced",
        description: "what Custody starts with: once untrusted text was read, what the user said or declared runs",
        text: crate::policy::STANDARD,
        cases: include_str!("../policies/standard.toml"),
    },
    example!(
        "strict",
        "once untrusted text was read, only calls that were declared before run unasked"
    ),
    example!("audit", "everything runs and is recorded; it guards nothing"),
    example!("recipients", "mail goes to whom the user named, or to the address book"),
    example!("web", "nothing leaves the machine once a web page was read"),
    example!("money", "payments over 100 need approval, those over 10,000 never run"),
    example!("allowlist", "a flat list of tools that may be called, and no others"),
    example!("read-only", "tools that read may be called, and no others"),
    example!("waived", "one harmless tool runs even where the floor would ask"),
    example!(
        "extract",
        "the balance of an account is read without reading what others wrote into it"
    ),
];

/// All examples; the first is the policy that Custody starts with.
pub const fn examples() -> &'static [Example] {
    &EXAMPLES
}
