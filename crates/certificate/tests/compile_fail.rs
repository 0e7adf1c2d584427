//! What cannot be written down: each program in `compile_fail` must be refused by the compiler.

#[test]
fn no_verified_certificate_can_be_made_without_verifying_one() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
