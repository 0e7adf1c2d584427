//! A proposal that is released twice.

use custody_kernel::actions::review::Released;

fn twice(released: Released) -> [Released; 2] {
    [released, released]
}

fn main() {}
