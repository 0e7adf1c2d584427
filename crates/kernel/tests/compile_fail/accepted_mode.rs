//! An item unlocked by nobody.

use custody_kernel::actions::mode::AcceptedMode;
use custody_kernel::key::Key;
use custody_kernel::memory::item::Mode;
use custody_kernel::namespace::Namespace;

fn unlock(namespace: Namespace, key: Key) -> AcceptedMode {
    AcceptedMode { namespace, key, mode: Mode::Open }
}

fn main() {}
