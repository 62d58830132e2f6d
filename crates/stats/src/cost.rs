//! What a request costs, from windows in which more or fewer of them were served.
//!
//! A window has a load (requests a second) and a spending (of some resource, a second). Where the spending is
//! proportional to the load, the ratio of their sums is the cost of a request at any load, and two services can
//! be compared though one was busier. Where there is a fixed overhead it is not: then they are compared at a
//! load that both had. Where they had none in common, they cannot be compared.
//!
//! Windows follow each other on one machine, so that neighbours are alike. All errors here are those of as many
//! independent windows as there is information in them ([`serial::effective`]).

pub mod compare;
pub mod fieller;
pub mod line;
pub mod load;
pub mod per_request;
pub mod serial;

pub use crate::estimate::Estimate;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The windows of one service: loads and spendings, in order of time. Both are rates, so that windows need not
/// be equally long.
#[derive(Debug, Clone, Copy)]
pub struct Windows<'a> {
    /// Requests a second.
    pub load: &'a [f64],
    /// Consumption per second.
    pub spent: &'a [f64],
}

/// The 97.5% quantile of Student's t. None without degrees of freedom.
fn t_quantile(freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok().filter(|_| freedom > 0.0)?.inverse_cdf(0.975))
}

/// Degrees of freedom of a sum of two variances (Welch 1947, Satterthwaite 1946).
fn welch(first: (f64, f64), second: (f64, f64)) -> f64 {
    let ((v1, f1), (v2, f2)) = (first, second);
    let sum = v1 + v2;
    if sum <= 0.0 {
        return f1.min(f2);
    }
    sum * sum / (v1 * v1 / f1 + v2 * v2 / f2)
}
