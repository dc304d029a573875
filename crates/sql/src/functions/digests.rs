//! Digests: `md5`, which returns hexadecimal digits, and the SHA-2 family, which returns bytes.

use crate::budget::Budget;
use crate::datum::Datum;
use crate::error::SqlError;
use md5::Md5;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// A digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what SQL calls so")]
pub enum DigestFunc {
    Md5,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// The digest of a text or of bytes.
pub(super) fn call(func: DigestFunc, of: &Datum, budget: &Budget) -> Result<Datum, SqlError> {
    let bytes = match of {
        Datum::Bytes(bytes) => bytes.as_slice(),
        other => other.as_text().unwrap_or_default().as_bytes(),
    };
    budget.tick(bytes.len() / 16)?;
    Ok(Datum::Bytes(match func {
        DigestFunc::Md5 => {
            let digits = Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            return Ok(Datum::Text(digits));
        }
        DigestFunc::Sha224 => Sha224::digest(bytes).to_vec(),
        DigestFunc::Sha256 => Sha256::digest(bytes).to_vec(),
        DigestFunc::Sha384 => Sha384::digest(bytes).to_vec(),
        DigestFunc::Sha512 => Sha512::digest(bytes).to_vec(),
    }))
}
