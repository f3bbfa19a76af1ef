//! What can be done with objects. One is written in parts of 16 MiB, of which one is in memory, and has the SHA-256 of its
//! content beside it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use jaco_https::Roots;
use ring::digest::{Context, SHA256, digest};
use rusty_s3::Credentials;
use rusty_s3::actions::{
    AbortMultipartUpload, CompleteMultipartUpload, CompleteMultipartUploadResponse,
    CreateMultipartUpload, DeleteObject, GetObject, ListObjectsV2, PutObject, UploadPart,
};

use crate::client::{Answer, Client, Limits};
use crate::failure::{Step, StoreError, word};
use crate::key::AccessKey;
use crate::place::Place;

/// The size of a part. What is not larger is written by one request.
pub const PART_BYTES: u64 = 16 << 20;

/// The most parts of an object, by the protocol.
const PARTS_MAX: u64 = 10_000;

/// The most objects that are looked at.
const LISTED_MAX: usize = 10_000;

/// The header with the SHA-256 of a whole object, kept beside it.
const SHA256_HEADER: &str = "x-amz-meta-sha256";

/// The header with the SHA-256 of what a request brings, which stores compare if they know it.
const CHECKSUM_HEADER: &str = "x-amz-checksum-sha256";

/// The length and the SHA-256 of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// In bytes.
    pub length: u64,
    /// In hexadecimal.
    pub sha256: String,
}

/// An object, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name, without what is before it.
    pub name: String,
    /// Its size in bytes.
    pub length: u64,
}

/// The objects at a place.
#[derive(Debug)]
pub struct ObjectStore {
    place: Place,
    credentials: Credentials,
    client: Client,
}

impl Digest {
    /// That of a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(file: &File) -> std::io::Result<Self> {
        let (mut context, mut length) = (Context::new(&SHA256), 0);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read_at(&mut buffer, length)? {
                0 => break,
                read => {
                    context.update(&buffer[..read]);
                    length += read as u64;
                }
            }
        }
        Ok(Self { length, sha256: HEXLOWER.encode(context.finish().as_ref()) })
    }
}

impl ObjectStore {
    /// The objects at a place. Reads what authorities this machine trusts.
    #[must_use]
    pub fn new(place: Place, key: &AccessKey, roots: Roots, limits: Limits) -> Self {
        Self { place, credentials: key.signs(), client: Client::new(roots, limits) }
    }

    /// Writes an object. It is there as a whole or not at all.
    ///
    /// # Errors
    /// If the store does not take it.
    pub async fn put(&self, name: &str, content: &File, of: &Digest) -> Result<(), StoreError> {
        if of.length > PART_BYTES * PARTS_MAX {
            return Err(StoreError::TooLarge(of.length));
        }
        match of.length <= PART_BYTES {
            true => self.put_whole(name, content, of).await,
            false => self.put_parts(name, content, of).await,
        }
    }

    async fn put_whole(&self, name: &str, content: &File, of: &Digest) -> Result<(), StoreError> {
        let body = read_part(content, 0, of.length).await?;
        let key = self.place.key(name);
        let action = PutObject::new(&self.place.bucket, Some(&self.credentials), &key);
        let headers = [checksum(&body), (SHA256_HEADER, of.sha256.clone())];
        self.client.send(Step::Write, action, &headers, body).await?.text().await.map(drop)
    }

    async fn put_parts(&self, name: &str, content: &File, of: &Digest) -> Result<(), StoreError> {
        let key = self.place.key(name);
        let action = CreateMultipartUpload::new(&self.place.bucket, Some(&self.credentials), &key);
        let headers = [(SHA256_HEADER, of.sha256.clone())];
        let begun = self.client.send(Step::Write, action, &headers, Bytes::new()).await?;
        let begun = CreateMultipartUpload::parse_response(&begun.text().await?);
        let begun = begun.map_err(|_| StoreError::Strange { step: Step::Write })?;
        let upload = begun.upload_id();
        let done = self.put_each(&key, upload, content, of).await;
        if done.is_err() {
            let (bucket, signs) = (&self.place.bucket, Some(&self.credentials));
            let action = AbortMultipartUpload::new(bucket, signs, &key, upload);
            // A store that does not answer keeps the parts: its owner sets how long.
            self.client.send(Step::Remove, action, &[], Bytes::new()).await.ok();
        }
        done
    }

    async fn put_each(
        &self,
        key: &str,
        upload: &str,
        content: &File,
        of: &Digest,
    ) -> Result<(), StoreError> {
        let strange = || StoreError::Strange { step: Step::Write };
        let (bucket, signs) = (&self.place.bucket, Some(&self.credentials));
        let mut tags = Vec::new();
        let offsets = (0..of.length).step_by(usize::try_from(PART_BYTES).unwrap_or(usize::MAX));
        for (number, offset) in (1_u16..).zip(offsets) {
            let body = read_part(content, offset, PART_BYTES.min(of.length - offset)).await?;
            let action = UploadPart::new(bucket, signs, key, number, upload);
            let headers = [checksum(&body)];
            let answer = self.client.send(Step::Write, action, &headers, body).await?;
            let tag = answer.headers.get("etag").and_then(|tag| tag.to_str().ok());
            tags.push(tag.ok_or_else(strange)?.to_owned());
            answer.text().await?;
        }
        let tags = tags.iter().map(String::as_str);
        let action = CompleteMultipartUpload::new(bucket, signs, key, upload, tags);
        let body = Bytes::from(action.clone().body());
        let answer = self.client.send(Step::Write, action, &[], body).await?.text().await?;
        // A store may say only here that it did not do it.
        match (CompleteMultipartUploadResponse::parse(&answer), word(&answer)) {
            (Ok(_), _) => Ok(()),
            (Err(_), Some(word)) => {
                Err(StoreError::Status { step: Step::Write, status: 200, word: Some(word) })
            }
            (Err(_), None) => Err(strange()),
        }
    }

    /// Reads a whole object, and returns what was read and what its writer says that it is.
    ///
    /// # Errors
    /// If the store does not return it.
    pub async fn read(&self, name: &str) -> Result<(Digest, Option<String>), StoreError> {
        let key = self.place.key(name);
        let action = GetObject::new(&self.place.bucket, Some(&self.credentials), &key);
        let mut answer = self.client.send(Step::Read, action, &[], Bytes::new()).await?;
        let said = answer.headers.get(SHA256_HEADER).and_then(|said| said.to_str().ok());
        let said = said.map(str::to_owned);
        let read = digest_of(&mut answer).await?;
        Ok((read, said))
    }

    /// The objects at the place, but none in folders of it.
    ///
    /// # Errors
    /// If the store does not list them, or there are more than are looked at.
    pub async fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut listed = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut action = ListObjectsV2::new(&self.place.bucket, Some(&self.credentials));
            action.with_prefix(self.place.prefix());
            action.with_delimiter("/");
            if let Some(token) = token {
                action.with_continuation_token(token);
            }
            let page = self.client.send(Step::List, action, &[], Bytes::new()).await?;
            let page = ListObjectsV2::parse_response(&page.text().await?);
            let page = page.map_err(|_| StoreError::Strange { step: Step::List })?;
            for object in page.contents {
                if let Some(name) = object.key.strip_prefix(self.place.prefix()) {
                    let length = object.size.unwrap_or_default();
                    listed.push(Listed { name: name.to_owned(), length });
                }
            }
            if listed.len() > LISTED_MAX {
                return Err(StoreError::TooMany(LISTED_MAX));
            }
            token = page.next_continuation_token;
            if token.is_none() {
                return Ok(listed);
            }
        }
    }

    /// Removes an object. Without one there is nothing to do.
    ///
    /// # Errors
    /// If the store does not.
    pub async fn remove(&self, name: &str) -> Result<(), StoreError> {
        let key = self.place.key(name);
        let action = DeleteObject::new(&self.place.bucket, Some(&self.credentials), &key);
        match self.client.send(Step::Remove, action, &[], Bytes::new()).await {
            Ok(_) | Err(StoreError::Status { status: 404, word: Some("NoSuchKey"), .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn checksum(body: &Bytes) -> (&'static str, String) {
    (CHECKSUM_HEADER, BASE64.encode(digest(&SHA256, body).as_ref()))
}

async fn digest_of(answer: &mut Answer) -> Result<Digest, StoreError> {
    let (mut context, mut length) = (Context::new(&SHA256), 0);
    while let Some(bytes) = answer.next().await? {
        context.update(&bytes);
        length += bytes.len() as u64;
    }
    Ok(Digest { length, sha256: HEXLOWER.encode(context.finish().as_ref()) })
}

/// A part of a file, read where a disk may be waited for.
async fn read_part(content: &File, offset: u64, length: u64) -> Result<Bytes, StoreError> {
    let content = content.try_clone()?;
    let read = tokio::task::spawn_blocking(move || {
        let mut part = vec![0; usize::try_from(length).map_err(std::io::Error::other)?];
        content.read_exact_at(&mut part, offset)?;
        Ok::<_, std::io::Error>(Bytes::from(part))
    });
    Ok(read.await.map_err(std::io::Error::other)??)
}
