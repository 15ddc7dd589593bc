//! P, U5 and U7 of the conformance cases, headlines and laws.

mod headline;

use super::super::tests::*;
use super::*;
