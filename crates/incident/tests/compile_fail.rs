//! No stage of an incident without the one before it: what must not be written down does not compile.

#[test]
fn no_stage_is_reached_without_consuming_the_one_before() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
