//! Limited-memory BFGS: the minimum of a smooth convex function of many variables.
//!
//! Source: Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 7.5; the step is found by bisection on the
//! weak Wolfe conditions (Lewis and Overton, 2013), which needs nothing but additions, products and comparisons and
//! so gives the same bits everywhere.

use std::collections::VecDeque;

use super::StopReason;

/// The number of stored correction pairs, as in scikit-learn.
const MEMORY: usize = 10;
/// The sufficient-decrease constant of the Wolfe conditions.
const DECREASE: f64 = 1e-4;
/// The curvature constant of the Wolfe conditions.
const CURVATURE: f64 = 0.9;
/// The most trials of one line search. Fifty halvings exhaust a float's mantissa.
const TRIALS: usize = 60;
/// A relative decrease of the function below this is rounding noise.
const NOISE: f64 = 64.0 * f64::EPSILON;

/// The result of a minimisation.
pub(super) struct Minimum {
    pub(super) point: Vec<f64>,
    pub(super) iterations: usize,
    pub(super) largest_slope: f64,
    pub(super) stop_reason: StopReason,
}

/// A point, with the value and the gradient of the function.
struct State {
    point: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// A correction pair: the changes of point and gradient in one step, and the inverse of their product.
struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    inverse: f64,
}

/// Minimises `function`, which fills in the gradient and returns the value, from `start`.
///
/// Ends when no component of the gradient exceeds `tolerance`, when the value no longer decreases, or after `limit`
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
    let stop_reason = loop {
        if largest(&state.gradient) <= tolerance {
            break StopReason::Gradient;
        }
        if iterations == limit {
            break StopReason::Limit;
        }
        let direction = descent(&pairs, &state.gradient);
        // The scale is unknown before the first step, which therefore has length 1.
        let first = if pairs.is_empty() { 1.0 / norm(&direction) } else { 1.0 };
        let Some(next) = step(&mut function, &state, &direction, first) else {
            break StopReason::Stalled;
        };
        iterations += 1;
        store_pair(&mut pairs, &state, &next);
        let decrease = state.value - next.value;
        state = next;
        if decrease <= NOISE * state.value.abs().max(f64::MIN_POSITIVE) {
            break StopReason::Stalled;
        }
    };
    Minimum { largest_slope: largest(&state.gradient), point: state.point, iterations, stop_reason }
}

/// The quasi-Newton direction: minus the approximate inverse Hessian times the gradient.
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

/// A step along `direction` that satisfies the weak Wolfe conditions; `None` if rounding leaves none.
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
        let is_lower = trial.value <= from.value + DECREASE * length * slope;
        if !is_lower {
            high = length;
        } else if dot(&trial.gradient, direction) < CURVATURE * slope {
            low = length;
        } else {
            return Some(trial);
        }
        length = if high.is_finite() { f64::midpoint(low, high) } else { 2.0 * low };
    }
    None
}

/// Stores the newest pairs with positive curvature, which every step of a strictly convex function has.
fn store_pair(pairs: &mut VecDeque<Pair>, from: &State, to: &State) {
    let step = difference(&to.point, &from.point);
    let change = difference(&to.gradient, &from.gradient);
    let curvature = dot(&step, &change);
    if curvature > 0.0 {
        if pairs.len() == MEMORY {
            pairs.pop_front();
        }
        pairs.push_back(Pair { step, change, inverse: 1.0 / curvature });
    }
}

fn difference(to: &[f64], from: &[f64]) -> Vec<f64> {
    to.iter().zip(from).map(|(to, from)| to - from).collect()
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

    fn bowl(x: &[f64], gradient: &mut [f64]) -> f64 {
        let mut value = 0.0;
        for (at, (x, slope)) in (1..).zip(x.iter().zip(gradient)) {
            let scale = f64::from(at * at);
            value += scale * (x - 1.0) * (x - 1.0) / 2.0;
            *slope = scale * (x - 1.0);
        }
        value
    }

    fn valley(x: &[f64], gradient: &mut [f64]) -> f64 {
        gradient[0] = x[0];
        gradient[1] = 1e6 * x[1];
        (x[0] * x[0] + 1e6 * x[1] * x[1]) / 2.0
    }

    #[test]
    fn the_minimum_of_a_badly_scaled_bowl_is_found() {
        let found = minimise(bowl, vec![0.0; 30], 1e-10, 1000);
        assert!(found.stop_reason != StopReason::Limit, "after {} steps", found.iterations);
        assert!(found.point.iter().all(|x| (x - 1.0).abs() < 1e-8), "{:?}", found.point);
    }

    #[test]
    fn the_limit_of_steps_is_reported() {
        let found = minimise(valley, vec![3.0, 1.0], 1e-12, 1);
        assert_eq!(found.stop_reason, StopReason::Limit);
        assert_eq!(found.iterations, 1);
    }
}
