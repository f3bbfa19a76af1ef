//! Where backups of a schedule go, with the key that opens it: for who stores a schedule and for the loop that carries it
//! out (R-CLI-6). A key must never be kept longer than for one attempt.

use jaco_pki::KekRing;
use jaco_pki::sealed::Purpose;
use jaco_s3::{AccessKey, Addressing, Place, PlaceError, PlainHttp};
use jaco_state::backup::{BackupBucket, BucketStyle, SealedCredentials};
use jaco_types::{BackupScheduleName, ClusterId};

use crate::sealer::Sealer;

/// Seals a key for a schedule.
#[must_use]
pub fn seal_access_key(
    sealer: &Sealer<'_>,
    name: &BackupScheduleName,
    key: &AccessKey,
) -> SealedCredentials {
    let purpose = Purpose::BackupSchedule { name: name.as_str() };
    SealedCredentials(sealer.seal(purpose, &key.to_bytes()).into())
}

/// Opens the key of a schedule.
///
/// # Errors
/// Why no key of this node opens it.
pub fn open_access_key(
    ring: &KekRing,
    cluster: &ClusterId,
    name: &BackupScheduleName,
    sealed: &SealedCredentials,
) -> Result<AccessKey, String> {
    let purpose = Purpose::BackupSchedule { name: name.as_str() };
    let opened = ring.open(cluster, purpose, &sealed.0).map_err(|error| error.to_string())?;
    AccessKey::from_bytes(&opened).ok_or_else(|| "it is no key of this version".to_owned())
}

/// The place of a bucket. Whether it may be without encryption was asked when it was stored.
///
/// # Errors
/// If it is not one that this version stores.
pub fn place_of(bucket: &BackupBucket) -> Result<Place, PlaceError> {
    let BackupBucket { endpoint, region, bucket, prefix, style } = bucket;
    let addressing = match style {
        BucketStyle::Path => Addressing::Path,
        BucketStyle::Host => Addressing::Host,
    };
    Place::new(endpoint, region, (bucket, prefix), addressing, PlainHttp::Anywhere)
}
