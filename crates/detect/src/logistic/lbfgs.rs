//! Limited-memory BFGS: the minimum of a smooth convex function of many variables.
//!
//! Source: Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5; the step is found by bisection on the
//! weak Wolfe conditions (Lewis and Overton, 2013), which needs nothing but additions, products and comparisons and
//! so gives the same bits everywhere.

use std::collections::VecDeque;

use super::Stopped;

/// Pairs of steps and gradient changes that are remembered; scikit-learn keeps as many.
const MEMORY: usize = 10;
/// A step must lower the function by this share of what the slope promises.
const DECREASE: f64 = 1e-4;
/// A step must flatten the slope to this share of what it was.
const FLATTEN: f64 = 0.9;
/// Trials for one step. Fifty halvings exhaust a float's mantissa.
const TRIALS: usize = 60;
/// A decrease of the function below this share of its size is rounding noise.
const NOISE: f64 = 64.0 * f64::EPSILON;

/// Where a search ended.
pub(super) struct Minimum {
    pub(super) point: Vec<f64>,
    pub(super) iterations: usize,
    pub(super) largest_slope: f64,
    pub(super) stopped: Stopped,
}

/// A point with the function's value and gradient there.
struct State {
    point: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// One remembered step: how the point and the gradient changed, and the inverse of their product.
struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    inverse: f64,
}

/// Minimises `function`, which fills in the gradient and returns the value, from `start`.
///
/// Ends when no component of the gradient exceeds `tolerance`, when the value no longer falls, or after `limit`
/// steps.
pub(super) fn minimise(
    mut function: impl FnMut(&[f64], &mut [f64]) -> f64,
    start: Vec<f64>,
    tolerance: f64,
    limit: usize,
) -> Minimum {
    let mut gradient = vec![0.0; start.len()];
    let value = function(&start, &mut gradient);
    let mut state = State { point: start, value, gradient };
    let mut pairs: VecDeque<Pair> = VecDeque::with_capacity(MEMORY);
    let mut iterations = 0;
    let stopped = loop {
        if largest(&state.gradient) <= tolerance {
            break Stopped::Gradient;
        }
        if iterations == limit {
            break Stopped::Limit;
        }
        let direction = descent(&pairs, &state.gradient);
        // Nothing is known of the scale before the first step, so it has length one.
        let first = if pairs.is_empty() { 1.0 / norm(&direction) } else { 1.0 };
        let Some(next) = step(&mut function, &state, &direction, first) else {
            break Stopped::Stalled;
        };
        iterations += 1;
        remember(&mut pairs, &state, &next);
        let fell = state.value - next.value;
        state = next;
        if fell <= NOISE * state.value.abs().max(f64::MIN_POSITIVE) {
            break Stopped::Stalled;
        }
    };
    Minimum { largest_slope: largest(&state.gradient), point: state.point, iterations, stopped }
}

/// The quasi-Newton direction: minus the remembered curvature's inverse times the gradient.
fn descent(pairs: &VecDeque<Pair>, gradient: &[f64]) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|slope| -slope).collect();
    let mut shares = Vec::with_capacity(pairs.len());
    for pair in pairs.iter().rev() {
        let share = pair.inverse * dot(&pair.step, &direction);
        add(&mut direction, -share, &pair.change);
        shares.push(share);
    }
    if let Some(last) = pairs.back() {
        let scale = 1.0 / (last.inverse * dot(&last.change, &last.change));
        direction.iter_mut().for_each(|value| *value *= scale);
    }
    for (pair, share) in pairs.iter().zip(shares.into_iter().rev()) {
        let back = pair.inverse * dot(&pair.change, &direction);
        add(&mut direction, share - back, &pair.step);
    }
    direction
}

/// A step along `direction` that meets the weak Wolfe conditions; `None` if rounding leaves none.
fn step(
    function: &mut impl FnMut(&[f64], &mut [f64]) -> f64,
    from: &State,
    direction: &[f64],
    first: f64,
) -> Option<State> {
    let slope = dot(&from.gradient, direction);
    if slope >= 0.0 {
        return None;
    }
    let (mut low, mut high, mut length) = (0.0, f64::INFINITY, first);
    let mut trial = State {
        point: vec![0.0; direction.len()],
        value: 0.0,
        gradient: vec![0.0; direction.len()],
    };
    for _ in 0..TRIALS {
        for ((to, at), along) in trial.point.iter_mut().zip(&from.point).zip(direction) {
            *to = at + length * along;
        }
        trial.value = function(&trial.point, &mut trial.gradient);
        let falls = trial.value <= from.value + DECREASE * length * slope;
        if !falls {
            high = length;
        } else if dot(&trial.gradient, direction) < FLATTEN * slope {
            low = length;
        } else {
            return Some(trial);
        }
        length = if high.is_finite() { f64::midpoint(low, high) } else { 2.0 * low };
    }
    None
}

/// Keeps the newest pairs that have positive curvature, as every step of a strictly convex function does.
fn remember(pairs: &mut VecDeque<Pair>, from: &State, to: &State) {
    let difference =
        |to: &[f64], from: &[f64]| to.iter().zip(from).map(|(to, from)| to - from).collect();
    let step: Vec<f64> = difference(&to.point, &from.point);
    let change: Vec<f64> = difference(&to.gradient, &from.gradient);
    let curvature = dot(&step, &change);
    if curvature > 0.0 {
        if pairs.len() == MEMORY {
            pairs.pop_front();
        }
        pairs.push_back(Pair { step, change, inverse: 1.0 / curvature });
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn largest(a: &[f64]) -> f64 {
    a.iter().fold(0.0, |most, value| value.abs().max(most))
}

fn add(sum: &mut [f64], factor: f64, term: &[f64]) {
    sum.iter_mut().zip(term).for_each(|(sum, term)| *sum += factor * term);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_of_a_stretched_bowl_is_found() {
        let bowl = |x: &[f64], gradient: &mut [f64]| {
            let mut value = 0.0;
            for (at, (x, slope)) in (1..).zip(x.iter().zip(gradient)) {
                let scale = f64::from(at * at);
                value += scale * (x - 1.0) * (x - 1.0) / 2.0;
                *slope = scale * (x - 1.0);
            }
            value
        };
        let found = minimise(bowl, vec![0.0; 30], 1e-10, 1000);
        assert!(found.stopped != Stopped::Limit, "{:?} after {}", found.stopped, found.iterations);
        assert!(found.point.iter().all(|x| (x - 1.0).abs() < 1e-8), "{:?}", found.point);
    }

    #[test]
    fn a_search_that_runs_out_of_steps_says_so() {
        let valley = |x: &[f64], gradient: &mut [f64]| {
            gradient[0] = x[0];
            gradient[1] = 1e6 * x[1];
            (x[0] * x[0] + 1e6 * x[1] * x[1]) / 2.0
        };
        let found = minimise(valley, vec![3.0, 1.0], 1e-12, 1);
        assert_eq!(found.stopped, Stopped::Limit);
        assert_eq!(found.iterations, 1);
    }
}
