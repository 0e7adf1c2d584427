//! Two recoveries of one store, from fixed keys: one that is complete, and a later one in which everything is left
//! that can be.

#![allow(dead_code, unreachable_pub, reason = "the bench uses a part")]

use custody_certificate::{
    AdapterAttestation, Audit, CertifiedClosure, ClosureMode, Evicted, EvictionMethod,
    EvidenceKind, Fused, IncludedRecord, IrreversibleEffect, LedgerBreak, LoggedStep,
    ManifestEntry, MeasuredInfluence, MemberAction, MemberKind, MemberRisk, MembershipProbe, Ppm,
    Probe, ProbeKind, ProbeRuns, ProbeScores, Recovery, Residual, Retained, RiskMode, RiskScores,
    RiskTiers, RiskWeights, RuntimeRecovery, SignedCheckpoint, SparedMember, StillLoaded,
    Unfinished,
};
use custody_log::{
    CertificateId, Checkpoint, Digest, Hash, IncidentId, LogKey, Seq, StoreId, Timestamp,
    consistency_proof, inclusion_proof, key_name, leaf_hash, origin, root_of,
};
use ed25519_dalek::{Signer, SigningKey};

/// The log before the first recovery, after it, and after the second.
pub const SIZES: [u64; 3] = [24, 31, 40];

pub fn owner_key() -> SigningKey {
    SigningKey::from_bytes(&[1; 32])
}

pub fn log_key() -> SigningKey {
    SigningKey::from_bytes(&[2; 32])
}

pub fn store() -> StoreId {
    StoreId::from_random([0xA0; 16])
}

pub fn incident(number: u8) -> IncidentId {
    IncidentId::from_random([number; 16])
}

pub fn ppm(millionths: u32) -> Ppm {
    Ppm::try_from(millionths).expect("a share")
}

/// The paper's.
pub fn weights() -> RiskWeights {
    RiskWeights {
        contamination_ppm: ppm(400_000),
        influence_ppm: ppm(300_000),
        share_ppm: ppm(300_000),
    }
}

/// The leaf hashes of a log of this many records.
pub fn leaves(size: u64) -> Vec<Hash> {
    (0..size).map(|number| leaf_hash(format!("record {number}").as_bytes())).collect()
}

/// The log key, certified by `owner` for `store`.
pub fn certified(owner: &SigningKey, store: StoreId) -> LogKey {
    let public_key = Digest(log_key().verifying_key().to_bytes());
    let signature = owner.sign(&LogKey::certified_bytes(store, &public_key));
    LogKey { public_key, certificate: hex::encode(signature.to_bytes()) }
}

/// What the log key signed when the log had `size` records.
pub fn checkpoint(size: u64) -> SignedCheckpoint {
    let stated = Checkpoint { origin: origin(store()), size, root: root_of(&leaves(size)) };
    SignedCheckpoint {
        log_key: certified(&owner_key(), store()),
        note: stated.sign(&log_key(), &key_name()),
    }
}

/// The log from `before` to `after` records, the recovery being these steps of it.
pub fn audit(before: u64, after: u64, steps: &[(u64, LoggedStep)]) -> Audit {
    let leaves = leaves(after);
    let digests = |hashes: Vec<Hash>| hashes.into_iter().map(Digest).collect();
    let included = |&(seq, step): &(u64, LoggedStep)| IncludedRecord {
        inclusion: digests(inclusion_proof(&leaves, seq, after).expect("in the log")),
        leaf: Digest(leaves[usize::try_from(seq).expect("small")]),
        seq: Seq(seq),
        step,
    };
    Audit {
        after: checkpoint(after),
        before: checkpoint(before),
        breaks: Vec::new(),
        consistency: digests(consistency_proof(&leaves, before, after).expect("in the log")),
        records: steps.iter().map(included).collect(),
    }
}

/// One manifest row.
pub fn row(entry: u64, kind: MemberKind, action: MemberAction, adapters: &[u8]) -> ManifestEntry {
    ManifestEntry {
        action,
        adapters: adapters.iter().map(|byte| Digest([*byte; 32])).collect(),
        commitment: Some(Digest::of(&entry.to_be_bytes())),
        done: true,
        entry: Seq(entry),
        kind,
    }
}

/// One score, made as the default mode makes it.
pub fn risk(
    entry: u64,
    evidence: EvidenceKind,
    contamination: u32,
    influence: Option<MeasuredInfluence>,
    share: u32,
    floor: MemberAction,
) -> MemberRisk {
    let weights = weights();
    let terms = [
        Some((weights.contamination_ppm, ppm(contamination))),
        influence.map(|influence| (weights.influence_ppm, influence.ppm)),
        Some((weights.share_ppm, ppm(share))),
    ];
    let whole = |share: Ppm| u64::from(share.millionths());
    let applied = || terms.into_iter().flatten();
    let sum: u64 = applied().map(|(weight, term)| whole(weight) * whole(term)).sum();
    let weight: u64 = applied().map(|(weight, _)| whole(weight)).sum();
    MemberRisk {
        contamination_ppm: ppm(contamination),
        entry: Seq(entry),
        evidence,
        floor,
        influence,
        score_ppm: ppm(u32::try_from(sum / weight).expect("a share")),
        share_ppm: ppm(share),
    }
}

pub fn scores(entries: Vec<MemberRisk>) -> RiskScores {
    RiskScores {
        entries,
        mode: RiskMode::Default,
        share_error_ppm: Ppm::ZERO,
        tiers: RiskTiers {
            evict_ppm: ppm(900_000),
            flag_ppm: ppm(300_000),
            purge_ppm: ppm(800_000),
            quarantine_ppm: ppm(600_000),
        },
        weights: weights(),
    }
}

/// Scores of which the longest run decides.
pub fn measured(embedding: u32, longest_run: u32) -> ProbeScores {
    ProbeScores {
        embedding_ppm: Some(ppm(embedding)),
        longest_run_ppm: Some(ppm(longest_run)),
        ngrams_ppm: Some(ppm(20_000)),
        numbers_ppm: None,
        tokens_ppm: Some(ppm(50_000)),
    }
}

/// A probe for the text of `target` that scored `post` after the recovery.
pub fn probe(
    kind: ProbeKind,
    target: u64,
    post: Option<ProbeScores>,
    control: Option<ProbeScores>,
) -> Probe {
    let scores = ProbeRuns { control, post, pre: Some(measured(910_000, 930_000)) };
    Probe::new(kind, Seq(target), ppm(400_000), scores, Some(Digest::of(b"what was said")))
}

/// A poisoned tool output, what an agent made of it under an adapter, and an item of memory: all gone.
pub fn recovered() -> Recovery {
    let manifest = vec![
        row(3, MemberKind::ToolOutput, MemberAction::Purge, &[]),
        row(4, MemberKind::Completion, MemberAction::Evict, &[0xAD]),
        row(6, MemberKind::MemoryWrite, MemberAction::Purge, &[0xAD]),
        row(7, MemberKind::Message, MemberAction::Flag, &[]),
        row(9, MemberKind::ToolCall, MemberAction::Quarantine, &[0xAE]),
        ManifestEntry {
            commitment: None,
            ..row(12, MemberKind::MemoryRead, MemberAction::None, &[])
        },
    ];
    let members = manifest.iter().map(|row| row.entry).collect();
    let closure = CertifiedClosure {
        frontier: 0,
        members,
        mode: ClosureMode::Causal,
        possible_origins: vec![Seq(0), Seq(2)],
        seeds: vec![Seq(3)],
    };
    let measured_influence = Some(MeasuredInfluence { measured: true, ppm: ppm(263_300) });
    let unknown_influence = Some(MeasuredInfluence { measured: false, ppm: Ppm::ONE });
    let steps = [
        (24, LoggedStep::Opened),
        (25, LoggedStep::Contained),
        (26, LoggedStep::Planned),
        (28, LoggedStep::Applied),
        (30, LoggedStep::Probed),
    ];
    Recovery {
        id: CertificateId::from_random([0xC1; 16]),
        time: Timestamp(1_790_000_000_000),
        incident: incident(0x11),
        store: store(),
        program: "custody 0.1.0".into(),
        policy_digest: Digest::of(b"the policy"),
        plan_digest: Digest::of(b"the plan"),
        runtime_recovery: RuntimeRecovery::new(closure, manifest),
        adapter_attestation: AdapterAttestation {
            evicted: vec![Evicted {
                loads: 2,
                method: EvictionMethod::Unloaded,
                name: "helpful-lora".into(),
                score_ppm: ppm(910_000),
                weights: Digest([0xAD; 32]),
            }],
            retained: vec![Retained {
                name: "house-style".into(),
                score_ppm: ppm(40_000),
                weights: Digest([0xAE; 32]),
                why: "on the allowlist, and its influence is below the threshold".into(),
            }],
            ..AdapterAttestation::default()
        },
        membership_probe: MembershipProbe::run(
            Some("qwen2.5-1.5b-instruct".into()),
            vec![
                probe(ProbeKind::Direct, 3, Some(measured(310_000, 60_000)), Some(measured(0, 0))),
                probe(ProbeKind::Semantic, 3, Some(measured(170_000, 30_000)), None),
                probe(ProbeKind::Adversarial, 6, Some(measured(280_000, 90_000)), None),
                probe(ProbeKind::Retrieval, 6, Some(measured(0, 0)), None),
            ],
        ),
        risk_scores: scores(vec![
            risk(3, EvidenceKind::Text, 1_000_000, None, 150_000, MemberAction::Purge),
            risk(
                4,
                EvidenceKind::None,
                1_000_000,
                unknown_influence,
                125_000,
                MemberAction::Quarantine,
            ),
            risk(
                6,
                EvidenceKind::Similarity,
                870_000,
                unknown_influence,
                50_000,
                MemberAction::Quarantine,
            ),
            risk(7, EvidenceKind::None, 1_000_000, None, 25_000, MemberAction::Flag),
            risk(
                9,
                EvidenceKind::None,
                1_000_000,
                measured_influence,
                25_000,
                MemberAction::Quarantine,
            ),
            risk(12, EvidenceKind::None, 0, None, 25_000, MemberAction::None),
        ]),
        spared: vec![SparedMember { covered_by: vec![Seq(1), Seq(2)], entry: Seq(7) }],
        residual: Residual {
            effects: vec![IrreversibleEffect {
                arguments: Some(Digest::of(b"the arguments")),
                entry: Seq(9),
                summary: "a message was sent to one recipient: \u{201c}Zoë\u{201d}".into(),
                tool: "send_mail".into(),
            }],
            quarantined: vec![Seq(9)],
            unfinished: Vec::new(),
        },
        audit: audit(SIZES[0], SIZES[1], &steps),
        previous: None,
    }
}

/// The next incident of the same store, after its certificate `previous`: cut off at a depth, a purge that failed, an
/// adapter that is fused, one that will not unload, a probe that got something back and one that could not tell.
pub fn incomplete(previous: Digest) -> Recovery {
    let first = recovered();
    let mut manifest = vec![
        row(4, MemberKind::Completion, MemberAction::Evict, &[0xB0, 0xB1]),
        row(8, MemberKind::Retrieval, MemberAction::Purge, &[]),
        row(15, MemberKind::FileChange, MemberAction::Flag, &[]),
    ];
    manifest[0].done = false;
    manifest[1].done = false;
    let closure = CertifiedClosure {
        frontier: 3,
        members: manifest.iter().map(|row| row.entry).collect(),
        mode: ClosureMode::RvuV2,
        possible_origins: vec![Seq(1)],
        seeds: vec![Seq(4), Seq(8)],
    };
    let no_influence = Some(MeasuredInfluence { measured: false, ppm: Ppm::ZERO });
    let leaked = Some(measured(120_000, 700_000));
    let mut audit = audit(
        SIZES[1],
        SIZES[2],
        &[(32, LoggedStep::Opened), (33, LoggedStep::Planned), (36, LoggedStep::Applied)],
    );
    audit.breaks = vec![LedgerBreak {
        at_ms: Timestamp(1_790_000_100_000),
        head_size: Some(29),
        reason: "restored from the copy of Monday".into(),
        seq: Seq(31),
    }];
    let unfinished =
        |entry, action, why: &str| Unfinished { action, entry: Seq(entry), why: why.into() };
    Recovery {
        id: CertificateId::from_random([0xC2; 16]),
        time: Timestamp(1_790_000_200_000),
        incident: incident(0x22),
        plan_digest: Digest::of(b"the second plan"),
        runtime_recovery: RuntimeRecovery::new(closure, manifest),
        adapter_attestation: AdapterAttestation {
            evicted: vec![Evicted {
                loads: 0,
                method: EvictionMethod::NotLoaded,
                name: "old".into(),
                score_ppm: ppm(500_000),
                weights: Digest([0x01; 32]),
            }],
            fusion_warnings: vec![Fused {
                base: Digest([0xBA; 32]),
                name: "melted-in".into(),
                score_ppm: ppm(950_000),
                weights: Digest([0xB0; 32]),
            }],
            retained: Vec::new(),
            unfinished: vec![StillLoaded {
                loads_left: 1,
                name: "sticky".into(),
                score_ppm: Ppm::ONE,
                weights: Digest([0xB1; 32]),
                why: "the host `gpu-2` does not answer".into(),
            }],
        },
        membership_probe: MembershipProbe::run(
            None,
            vec![
                probe(ProbeKind::Direct, 8, leaked, Some(measured(100_000, 80_000))),
                probe(ProbeKind::Direct, 8, leaked, leaked),
                probe(ProbeKind::Semantic, 8, None, None),
                probe(ProbeKind::Retrieval, 8, Some(measured(0, 0)), None),
            ],
        ),
        risk_scores: RiskScores {
            mode: RiskMode::RvuV2,
            ..scores(vec![
                risk(4, EvidenceKind::Hash, 1_000_000, no_influence, 500_000, MemberAction::None),
                risk(8, EvidenceKind::Id, 1_000_000, no_influence, 250_000, MemberAction::None),
                risk(15, EvidenceKind::None, 0, no_influence, 125_000, MemberAction::None),
            ])
        },
        spared: Vec::new(),
        residual: Residual {
            effects: Vec::new(),
            quarantined: vec![Seq(8)],
            unfinished: vec![
                unfinished(
                    4,
                    MemberAction::Evict,
                    "an adapter is fused and another is still loaded",
                ),
                unfinished(8, MemberAction::Purge, "a reader still holds old pages"),
            ],
        },
        audit,
        previous: Some(previous),
        ..first
    }
}

/// An incident of `members` entries after a thousand possible origins: every seventh entry is in quarantine, every
/// tenth spared, every eleventh a seed, and so many are not done.
pub fn large(members: u64, unfinished: u64) -> Recovery {
    let first = 1_000;
    let mut residual = Residual::default();
    let mut spared = Vec::new();
    let (mut seeds, mut rows, mut risks) = (Vec::new(), Vec::new(), Vec::new());
    for entry in first..first + members {
        let is_seed = entry % 11 == 0;
        let action = match entry {
            _ if is_seed => MemberAction::Purge,
            entry if entry % 7 == 0 => MemberAction::Quarantine,
            _ => MemberAction::Flag,
        };
        let mut row = row(entry, MemberKind::ToolOutput, action, &[]);
        if action == MemberAction::Flag && entry % 10 == 0 {
            spared.push(SparedMember { covered_by: vec![Seq(1)], entry: Seq(entry) });
        }
        if (residual.unfinished.len() as u64) < unfinished {
            row.done = false;
            let why = "it is not done".to_owned();
            residual.unfinished.push(Unfinished { action, entry: Seq(entry), why });
        }
        if row.done && action == MemberAction::Quarantine {
            residual.quarantined.push(Seq(entry));
        }
        if is_seed {
            seeds.push(Seq(entry));
        }
        let evidence = if is_seed { EvidenceKind::Text } else { EvidenceKind::None };
        risks.push(risk(entry, evidence, 1_000_000, None, 150_000, action));
        rows.push(row);
    }
    residual.effects = vec![IrreversibleEffect {
        arguments: None,
        entry: Seq(first + members - 1),
        summary: "mail was sent".into(),
        tool: "send_mail".into(),
    }];
    let members: Vec<Seq> = rows.iter().map(|row| row.entry).collect();
    let size = first + members.len() as u64;
    let mut membership_probe = recovered().membership_probe;
    for probe in &mut membership_probe.probes {
        probe.target = seeds[0];
    }
    let closure = CertifiedClosure {
        members,
        possible_origins: (0..first).map(Seq).filter(|entry| entry.0 != 1).collect(),
        seeds,
        ..recovered().runtime_recovery.closure
    };
    Recovery {
        runtime_recovery: RuntimeRecovery::new(closure, rows),
        adapter_attestation: AdapterAttestation::default(),
        membership_probe,
        risk_scores: scores(risks),
        spared,
        residual,
        audit: audit(size, size + 8, &[(size + 1, LoggedStep::Opened)]),
        ..recovered()
    }
}
