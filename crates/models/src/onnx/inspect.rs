//! What an ONNX file holds, seen before an engine reads it: operators, and graphs inside graphs.
//!
//! The file is a tree of protobuf messages. The walk here goes down a fixed number of levels, so that no file
//! can exhaust the stack, here or in the engine that recurses into what this lets pass.

/// The operators that text classifiers are made of. Loops, branches, sequences and randomness are not among
/// them: nothing in such a graph decides how long it runs.
const OPERATORS: [&str; 73] = [
    "Abs",
    "Add",
    "And",
    "Cast",
    "Ceil",
    "Clip",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "Cos",
    "CumSum",
    "DequantizeLinear",
    "Div",
    "DynamicQuantizeLinear",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "Gather",
    "GatherElements",
    "GatherND",
    "Gelu",
    "Gemm",
    "Greater",
    "GreaterOrEqual",
    "Identity",
    "IsNaN",
    "LayerNormalization",
    "Less",
    "LessOrEqual",
    "Log",
    "MatMul",
    "MatMulInteger",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "QuantizeLinear",
    "Range",
    "Reciprocal",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Round",
    "ScatterElements",
    "ScatterND",
    "Shape",
    "Sigmoid",
    "Sign",
    "Sin",
    "Slice",
    "Softmax",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Tanh",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
    "Where",
    "Xor",
    "Size",
];

/// The standard's own names for its operators' domain.
const DOMAINS: [&str; 2] = ["", "ai.onnx"];

/// The numbers of the fields that are looked at.
mod number {
    pub(super) const MODEL_GRAPH: u64 = 7;
    pub(super) const GRAPH_NODE: u64 = 1;
    pub(super) const GRAPH_VALUES: [u64; 3] = [11, 12, 13];
    pub(super) const NODE_OPERATOR: u64 = 4;
    pub(super) const NODE_ATTRIBUTE: u64 = 5;
    pub(super) const NODE_DOMAIN: u64 = 7;
    pub(super) const ATTRIBUTE_NESTED: [u64; 3] = [6, 11, 14];
    pub(super) const VALUE_TYPE: u64 = 2;
    pub(super) const TYPE_TENSOR: u64 = 1;
    pub(super) const TYPE_DENOTATION: u64 = 6;
}

/// Whether the file is a flat graph of known operators.
///
/// # Errors
/// What is in the way, as text.
pub(crate) fn inspect(file: &[u8]) -> Result<(), String> {
    let mut graphs = 0;
    for field in fields(file) {
        let (number, content) = field?;
        if number == number::MODEL_GRAPH {
            inspect_graph(content)?;
            graphs += 1;
        }
    }
    if graphs == 1 { Ok(()) } else { Err(format!("it holds {graphs} graphs instead of one")) }
}

fn inspect_graph(graph: &[u8]) -> Result<(), String> {
    for field in fields(graph) {
        let (number, content) = field?;
        if number == number::GRAPH_NODE {
            inspect_node(content)?;
        } else if number::GRAPH_VALUES.contains(&number) {
            inspect_value(content)?;
        }
    }
    Ok(())
}

fn inspect_node(node: &[u8]) -> Result<(), String> {
    let (mut operator, mut domain) = ("", "");
    for field in fields(node) {
        let (number, content) = field?;
        match number {
            number::NODE_OPERATOR => operator = text(content)?,
            number::NODE_DOMAIN => domain = text(content)?,
            number::NODE_ATTRIBUTE => inspect_attribute(content)?,
            _ => {}
        }
    }
    let name = operator.escape_debug();
    if !DOMAINS.contains(&domain) {
        return Err(format!(
            "operator `{name}` is of the domain `{}`; only the standard's own are run",
            domain.escape_debug()
        ));
    }
    if OPERATORS.contains(&operator) {
        return Ok(());
    }
    Err(format!("operator `{name}` is none that a text classifier needs"))
}

fn inspect_attribute(attribute: &[u8]) -> Result<(), String> {
    for field in fields(attribute) {
        if number::ATTRIBUTE_NESTED.contains(&field?.0) {
            return Err("an operator holds a graph of its own".to_owned());
        }
    }
    Ok(())
}

/// Inputs, outputs and what is between must be tensors; other types nest without end.
fn inspect_value(value: &[u8]) -> Result<(), String> {
    for field in fields(value) {
        let (number, content) = field?;
        if number != number::VALUE_TYPE {
            continue;
        }
        for field in fields(content) {
            if ![number::TYPE_TENSOR, number::TYPE_DENOTATION].contains(&field?.0) {
                return Err("a value of the graph is no tensor".to_owned());
            }
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "a name is no text".to_owned())
}

/// The fields of a message: number and content. A number has an empty content, as its value is not looked at.
fn fields(message: &[u8]) -> impl Iterator<Item = Result<(u64, &[u8]), String>> {
    let mut rest = message;
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed || rest.is_empty() {
            return None;
        }
        let field = next_field(&mut rest);
        failed = field.is_none();
        Some(field.ok_or_else(|| "it is damaged or cut off; fetch it again".to_owned()))
    })
}

fn next_field<'m>(rest: &mut &'m [u8]) -> Option<(u64, &'m [u8])> {
    let tag = varint(rest)?;
    let content = match tag & 7 {
        0 => {
            varint(rest)?;
            &[]
        }
        1 => take(rest, 8)?,
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            take(rest, length)?
        }
        5 => take(rest, 4)?,
        // Groups were given up before ONNX began.
        _ => return None,
    };
    Some((tag >> 3, content))
}

fn take<'m>(rest: &mut &'m [u8], length: usize) -> Option<&'m [u8]> {
    let (taken, others) = rest.split_at_checked(length)?;
    *rest = others;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, others) = rest.split_first()?;
        *rest = others;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
