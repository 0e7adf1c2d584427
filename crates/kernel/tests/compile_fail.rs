//! What cannot be written down: each program in `compile_fail` must be refused by the compiler.

#[test]
fn no_witness_can_be_made_or_used_outside_the_law() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
