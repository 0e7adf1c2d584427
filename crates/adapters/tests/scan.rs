//! Adapters as PEFT writes them, and as somebody writes them who wants more than an adapter.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use custody_adapters::{
    AdapterError, AdapterKind, AdapterReport, AdapterSeverity, ModuleReport, scan,
};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, TensorView};

const Q: &str = "base_model.model.model.layers.0.self_attn.q_proj";

/// A folder with an adapter, and what makes it.
struct Made {
    folder: tempfile::TempDir,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    configuration: serde_json::Value,
}

impl Made {
    fn new(configuration: serde_json::Value) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), tensors: BTreeMap::new(), configuration }
    }

    /// A LoRA of one module: `outputs` 3, `inputs` 2, rank 1.
    fn lora() -> Self {
        let made = Self::new(serde_json::json!({
            "peft_type": "LORA", "r": 1, "lora_alpha": 2, "revision": "0a1b", "base_model_name_or_path": "base",
        }));
        made.with(&format!("{Q}.lora_A.weight"), &[1, 2], &[3.0, 4.0]).with(
            &format!("{Q}.lora_B.weight"),
            &[3, 1],
            &[1.0, 2.0, 2.0],
        )
    }

    fn with(mut self, name: &str, shape: &[usize], numbers: &[f32]) -> Self {
        self.tensors.insert(name.to_owned(), (shape.to_vec(), numbers.to_vec()));
        self
    }

    fn with_key(mut self, key: &str, value: serde_json::Value) -> Self {
        self.configuration[key] = value;
        self
    }

    fn write(&self) -> &Path {
        let bytes: BTreeMap<&String, Vec<u8>> = self
            .tensors
            .iter()
            .map(|(name, (_, numbers))| {
                (name, numbers.iter().flat_map(|n| n.to_le_bytes()).collect())
            })
            .collect();
        let views = self.tensors.iter().map(|(name, (shape, _))| {
            (name.clone(), TensorView::new(Dtype::F32, shape.clone(), &bytes[name]).unwrap())
        });
        let metadata = [("format".to_owned(), "pt".to_owned())].into();
        let file = safetensors::serialize(views, Some(metadata)).unwrap();
        std::fs::write(self.folder.path().join("adapter_model.safetensors"), file).unwrap();
        let configuration = self.configuration.to_string();
        std::fs::write(self.folder.path().join("adapter_config.json"), configuration).unwrap();
        self.folder.path()
    }

    fn scan(&self) -> AdapterReport {
        scan(self.write(), &mut |_, _| {}).unwrap()
    }
}

fn rules(report: &AdapterReport) -> Vec<(&str, AdapterSeverity)> {
    report.findings.iter().map(|finding| (finding.rule, finding.severity)).collect()
}

fn only(report: &AdapterReport) -> &ModuleReport {
    assert_eq!(report.changes.len(), 1, "{report:?}");
    &report.changes[0]
}

#[test]
fn an_ordinary_lora_has_its_kind_its_size_and_no_finding() {
    let report = Made::lora().scan();
    assert_eq!(report.kind, Some(AdapterKind::Lora));
    assert_eq!((report.claimed_base.as_deref(), report.parameters), (Some("base"), 5));
    assert_eq!(rules(&report), []);
    let ModuleReport { module, change, .. } = only(&report);
    let change = change.as_ref().unwrap();
    assert_eq!(module, "model.layers.0.self_attn.q_proj");
    // 2 · |(1, 2, 2)| · |(3, 4)|
    assert!((change.spectral - 30.0).abs() < 1e-9 && (change.frobenius - 30.0).abs() < 1e-9);
    assert!((change.stable_rank - 1.0).abs() < 1e-9);
    assert_eq!((change.outputs, change.inputs, change.rank), (3, 2, 1));
}

#[test]
fn a_copy_is_the_same_adapter_and_one_that_does_something_else_is_another() {
    let identity = Made::lora().scan().identity;
    let same =
        [("lora_dropout", 0.1.into()), ("inference_mode", true.into()), ("bias", "none".into())];
    for (key, value) in same {
        assert_eq!(Made::lora().with_key(key, value).scan().identity, identity, "{key}");
    }
    let others = [
        ("lora_alpha", 3.into()),
        ("use_rslora", true.into()),
        ("layer_replication", [[0, 1]].into()),
    ];
    for (key, value) in others {
        let value: serde_json::Value = value;
        assert_ne!(Made::lora().with_key(key, value).scan().identity, identity, "{key}");
    }
    let changed = Made::lora().with(&format!("{Q}.lora_A.weight"), &[1, 2], &[3.0, 4.5]);
    assert_ne!(changed.scan().identity, identity);
    let moved = Made::lora();
    std::fs::write(moved.folder.path().join("README.md"), "another").unwrap();
    assert_eq!(moved.scan().identity, identity);
}

#[test]
fn the_scale_is_that_of_the_kind() {
    let spectral = |made: Made| only(&made.scan()).change.as_ref().unwrap().spectral;
    let ranked = |made: Made| {
        made.with(&format!("{Q}.lora_A.weight"), &[2, 2], &[3.0, 4.0, 0.0, 0.0]).with(
            &format!("{Q}.lora_B.weight"),
            &[3, 2],
            &[1.0, 0.0, 2.0, 0.0, 2.0, 0.0],
        )
    };
    assert!((spectral(ranked(Made::lora())) - 15.0).abs() < 1e-6);
    let rs = ranked(Made::lora().with_key("use_rslora", true.into()));
    assert!((spectral(rs) - 15.0 * 2.0_f64.sqrt()).abs() < 1e-6);
    let pattern = serde_json::json!({ "q_proj": 20 });
    assert!((spectral(Made::lora().with_key("alpha_pattern", pattern)) - 300.0).abs() < 1e-6);
}

#[test]
fn what_needs_the_base_model_is_not_evaluated_and_never_small() {
    let dora = Made::lora()
        .with_key("use_dora", true.into())
        .with(&format!("{Q}.lora_magnitude_vector"), &[3], &[1.0; 3])
        .scan();
    assert_eq!((dora.kind, dora.not_evaluated()), (Some(AdapterKind::Dora), 1));
    let pissa = Made::lora().with_key("init_lora_weights", "pissa_niter_4".into()).scan();
    assert_eq!(pissa.not_evaluated(), 1);
    assert_eq!(rules(&pissa), [("altered-base", AdapterSeverity::Review)]);
    let ia3 = Made::new(serde_json::json!({ "peft_type": "IA3", "revision": "0" }));
    let ia3 = ia3.with(&format!("{Q}.ia3_l"), &[3, 1], &[0.0; 3]).scan();
    assert_eq!((ia3.not_evaluated(), rules(&ia3)), (1, vec![]));
}

#[test]
fn numbers_that_are_too_large_are_not_evaluated_and_large_ones_are() {
    let large = |number: f32, alpha: f64| {
        let made = Made::lora().with_key("lora_alpha", alpha.into());
        let made = made.with(&format!("{Q}.lora_A.weight"), &[1, 2], &[number, 0.0]);
        made.with(&format!("{Q}.lora_B.weight"), &[3, 1], &[number, 0.0, 0.0]).scan()
    };
    let report = large(3.0e38, 2.0);
    assert!(only(&report).change.as_ref().unwrap().spectral > 1.0e76, "{report:?}");
    assert_eq!(large(3.0e38, 1.0e300).not_evaluated(), 1);
    let zero = only(&large(0.0, 2.0)).change.clone().unwrap();
    assert_eq!((zero.frobenius, zero.stable_rank, zero.entry_kurtosis), (0.0, 0.0, Some(0.0)));
}

#[test]
fn each_way_to_bring_more_than_an_adapter_is_named() {
    let head = "base_model.model.lm_head.weight";
    let embeddings = "base_model.model.model.embed_tokens.base_layer.weight";
    for (name, made) in [
        ("foreign-tensors", Made::lora().with(head, &[1, 1], &[1.0])),
        ("foreign-tensors", Made::lora().with(embeddings, &[1, 1], &[1.0])),
        ("foreign-tensors", Made::lora().with(&format!("{Q}.lora_B.bias"), &[3], &[1.0; 3])),
        ("hidden-effect", Made::lora().with_key("modules_to_save", serde_json::json!(["lm_head"]))),
        (
            "hidden-effect",
            Made::lora().with_key("alora_invocation_tokens", serde_json::json!([1, 2])),
        ),
        ("hidden-effect", Made::lora().with_key("layer_replication", serde_json::json!([[0, 4]]))),
        ("hidden-effect", Made::lora().with_key("trainable_token_indices", serde_json::json!([7]))),
        (
            "hidden-effect",
            Made::lora().with_key("target_parameters", serde_json::json!(["experts"])),
        ),
        ("hidden-effect", Made::lora().with_key("arrow_config", serde_json::json!({"top_k": 3}))),
        ("hidden-effect", Made::lora().with_key("bias", "all".into())),
        ("unknown-key", Made::lora().with_key("new_option", true.into())),
        ("unknown-kind", Made::lora().with_key("peft_type", "RANDLORA".into())),
    ] {
        let report = made.scan();
        assert_eq!(rules(&report), [(name, AdapterSeverity::Refuse)], "{report:?}");
    }
    let mapping = serde_json::json!({ "base_model_class": "X", "parent_library": "evil" });
    let mapped = Made::lora().with_key("auto_mapping", mapping).scan();
    assert_eq!(rules(&mapped), [("auto-mapping", AdapterSeverity::Review)]);
    for (file, rule) in [("adapter_model.bin", "pickle"), ("modeling.py", "program")] {
        let made = Made::lora();
        std::fs::write(made.folder.path().join(file), "x").unwrap();
        assert_eq!(rules(&made.scan()), [(rule, AdapterSeverity::Review)]);
    }
    let unpinned = Made::lora().with_key("revision", serde_json::Value::Null).scan();
    assert_eq!(rules(&unpinned), [("unpinned-base", AdapterSeverity::Note)]);
}

#[test]
fn a_text_in_the_header_is_named() {
    let made = Made::lora();
    let path = made.write().join("adapter_model.safetensors");
    let bytes = [7.0_f32.to_le_bytes()].concat();
    let view = TensorView::new(Dtype::F32, vec![1, 1], &bytes).unwrap();
    let metadata = [("lora_adapter_metadata".to_owned(), "{}".to_owned())].into();
    let tensors = [(format!("{Q}.lora_A.weight"), view)];
    std::fs::write(&path, safetensors::serialize(tensors, Some(metadata)).unwrap()).unwrap();
    assert!(
        scan(&path, &mut |_, _| {}).unwrap().findings.iter().any(|it| it.rule == "header-metadata")
    );
    // An adapter needs both of its matrices.
    let folder = made.folder.path();
    assert!(matches!(scan(folder, &mut |_, _| {}), Err(AdapterError::Missing(_))));
}

#[test]
fn other_low_rank_kinds_are_read_as_what_they_multiply_to() {
    let adalora =
        serde_json::json!({ "peft_type": "ADALORA", "r": 8, "lora_alpha": 1, "revision": "0" });
    let report = Made::new(adalora)
        .with(&format!("{Q}.lora_A"), &[1, 2], &[3.0, 4.0])
        .with(&format!("{Q}.lora_B"), &[3, 1], &[1.0, 2.0, 2.0])
        .with(&format!("{Q}.lora_E"), &[1, 1], &[10.0])
        .scan();
    let spectral = only(&report).change.as_ref().unwrap().spectral;
    assert!((spectral - 150.0 / 1.00001).abs() < 1e-6, "{spectral}");

    let loha = serde_json::json!({ "peft_type": "LOHA", "r": 1, "alpha": 1, "revision": "0" });
    let report = Made::new(loha)
        .with(&format!("{Q}.hada_w1_a"), &[2, 1], &[1.0, 2.0])
        .with(&format!("{Q}.hada_w1_b"), &[1, 2], &[1.0, 0.0])
        .with(&format!("{Q}.hada_w2_a"), &[2, 1], &[3.0, 2.0])
        .with(&format!("{Q}.hada_w2_b"), &[1, 2], &[1.0, 5.0])
        .scan();
    // ((1, 0), (2, 0)) ∘ ((3, 15), (2, 10)) = ((3, 0), (4, 0))
    let change = only(&report).change.as_ref().unwrap();
    assert!((change.spectral - 5.0).abs() < 1e-6 && (change.frobenius - 5.0).abs() < 1e-6);

    let vera = serde_json::json!({ "peft_type": "VERA", "r": 1, "revision": "0" });
    let shared = Made::new(vera).with(&format!("{Q}.vera_lambda_b"), &[2], &[1.0, 2.0]).with(
        &format!("{Q}.vera_lambda_d"),
        &[1],
        &[3.0],
    );
    assert_eq!(shared.scan().not_evaluated(), 1, "its matrices come from a seed");
    let report = shared
        .with("base_model.vera_A", &[1, 2], &[0.0, 1.0])
        .with("base_model.vera_B", &[3, 1], &[2.0, 2.0, 9.0])
        .scan();
    // diag(1, 2) · (2, 2) · 3 · (0, 1)
    let change = only(&report).change.as_ref().unwrap();
    assert!((change.spectral - 180.0_f64.sqrt()).abs() < 1e-6, "{change:?}");
    assert_eq!(report.changes.len(), 1);
}

#[test]
fn a_layer_that_changes_far_more_than_its_likes_is_named() {
    let mut made = Made::new(Made::lora().configuration);
    for layer in 0..12_u8 {
        let size = if layer == 5 { 400.0 } else { 1.0 + f32::from(layer) / 10.0 };
        let module = format!("base_model.model.model.layers.{layer}.self_attn.q_proj");
        made = made.with(&format!("{module}.lora_A.weight"), &[1, 2], &[size, 0.0]).with(
            &format!("{module}.lora_B.weight"),
            &[2, 1],
            &[1.0, 0.0],
        );
    }
    let report = made.scan();
    assert_eq!(rules(&report), [("outlier-layer", AdapterSeverity::Note)]);
    assert!(report.findings[0].what.ends_with("`model.layers.5.self_attn.q_proj`"), "{report:?}");
}

/// A safetensors file with this header and these bytes behind it.
fn raw(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn scan_bytes(bytes: &[u8]) -> Result<AdapterReport, AdapterError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    std::fs::write(&path, bytes).unwrap();
    scan(&path, &mut |_, _| {})
}

#[test]
fn a_file_that_does_not_fit_its_header_is_refused_with_the_reason() {
    let entry = |from: u64, to: u64| {
        format!(r#"{{"dtype":"F32","shape":[1],"data_offsets":[{from},{to}]}}"#)
    };
    let two = |a: &str, b: &str| raw(&format!(r#"{{"a":{a},"b":{b}}}"#), &[0; 8]);
    for (bytes, why) in [
        (vec![], "too short"),
        (u64::MAX.to_le_bytes().to_vec(), "its header claims"),
        (b"PK\x03\x04 and so on".to_vec(), "a ZIP archive"),
        (b"\x80\x04\x95rest of it".to_vec(), "a Python pickle"),
        (raw("{", &[]), "its header"),
        (raw(r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, &[0; 8]), "do not end"),
        (two(&entry(0, 4), &entry(0, 4)), "overlaps"),
        (two(&entry(0, 4), &entry(4, 12)), "do not end"),
        (raw(&format!(r#"{{"a":{0},"a":{0}}}"#, entry(0, 4)), &[0; 4]), "stands twice"),
        (raw(r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,4]}}"#, &[0; 4]), "does not fit"),
        (
            raw(
                r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}"#,
                &[0; 4],
            ),
            "does not fit",
        ),
        (raw(r#"{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}"#, &[0; 8]), "holds `I64`"),
    ] {
        let error = scan_bytes(&bytes).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let nan = Made::lora().with(&format!("{Q}.lora_A.weight"), &[1, 2], &[f32::NAN, 1.0]);
    assert!(matches!(scan(nan.write(), &mut |_, _| {}), Err(AdapterError::NotFinite(_))));
    let other = Made::lora().with(&format!("{Q}.lora_A.weight"), &[2, 1], &[1.0, 1.0]);
    assert!(matches!(scan(other.write(), &mut |_, _| {}), Err(AdapterError::Shape { .. })));
    let cube = Made::lora().with(&format!("{Q}.lora_A.weight"), &[1, 2, 1], &[1.0, 1.0]);
    assert!(matches!(scan(cube.write(), &mut |_, _| {}), Err(AdapterError::Shape { .. })));
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_folder_is_refused_and_one_within_is_not() {
    let made = Made::lora();
    let folder = made.write();
    std::os::unix::fs::symlink("adapter_config.json", folder.join("copy.json")).unwrap();
    assert!(scan(folder, &mut |_, _| {}).is_ok());
    std::os::unix::fs::symlink("/etc/hostname", folder.join("notes.txt")).unwrap();
    assert!(matches!(scan(folder, &mut |_, _| {}), Err(AdapterError::LinkOut(_))));
    let missing = scan(Path::new("/nonexistent/adapter"), &mut |_, _| {});
    assert!(matches!(missing, Err(AdapterError::File { .. })));
}

fn numbers(count: usize) -> impl Strategy<Value = Vec<f32>> {
    proptest::collection::vec(-2.0_f32..2.0, count)
}

/// The figures of the product as a whole: Frobenius norm, spectral norm, kurtosis of the entries.
fn dense(outputs: usize, rank: usize, inputs: usize, b: &[f32], a: &[f32], scale: f64) -> [f64; 3] {
    let b = nalgebra::DMatrix::from_row_iterator(outputs, rank, b.iter().map(|n| f64::from(*n)));
    let a = nalgebra::DMatrix::from_row_iterator(rank, inputs, a.iter().map(|n| f64::from(*n)));
    let product = b * a * scale;
    let spectral = product.singular_values().max();
    let count = (outputs * inputs) as f64;
    let mean = product.mean();
    let moment = |power: i32| product.iter().map(|n| (n - mean).powi(power)).sum::<f64>() / count;
    [product.norm(), spectral, moment(4) / moment(2).powi(2) - 3.0]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn figures_equal_those_of_the_product_formed_as_a_whole(
        (outputs, rank, inputs, a, b) in (2_usize..9, 1_usize..5, 2_usize..9).prop_flat_map(
            |(outputs, rank, inputs)| (
                Just(outputs), Just(rank), Just(inputs), numbers(rank * inputs), numbers(outputs * rank),
            )
        )
    ) {
        let made = Made::lora()
            .with(&format!("{Q}.lora_A.weight"), &[rank, inputs], &a)
            .with(&format!("{Q}.lora_B.weight"), &[outputs, rank], &b);
        let report = made.scan();
        let change = only(&report).change.as_ref().unwrap();
        let [frobenius, spectral, kurtosis] = dense(outputs, rank, inputs, &b, &a, 2.0 / rank as f64);
        prop_assert!((change.frobenius - frobenius).abs() <= 1e-5 * frobenius);
        prop_assert!((change.spectral - spectral).abs() <= 1e-5 * spectral);
        if frobenius > 1e-3 {
            let found = change.entry_kurtosis.unwrap();
            prop_assert!((found - kurtosis).abs() <= 1e-5 * (1.0 + kurtosis.abs()), "{found} {kurtosis}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = scan_bytes(&bytes);
        let length = bytes.len() as u64;
        let _ = scan_bytes(&[&length.to_le_bytes(), bytes.as_slice()].concat());
    }
}
