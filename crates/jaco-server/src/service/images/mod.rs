//! The services for pushed images: their blobs on the way into this node, their records and names (ADR 0137).

mod list;
mod record;
mod upload;

use std::pin::Pin;

use async_trait::async_trait;
use futures::Stream;
use jaco_proto::v1;
use jaco_proto::v1::images_server::Images;
use jaco_proto::v1::uploads_server::Uploads;
use tonic::{Request, Response, Status, Streaming};

use super::context::{Context, on_leader};
use crate::images::digest;
use crate::status::to_status;

/// The service for records and names.
#[derive(Debug)]
pub(crate) struct ImagesService {
    context: Context,
}

impl ImagesService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl Images for ImagesService {
    jaco_proto::leader_methods!(Images, on_leader);

    async fn list_images(
        &self,
        request: Request<v1::ListImagesRequest>,
    ) -> Result<Response<v1::ListImagesResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let request = request.get_ref();
        member.reached(request.min_index).await.map_err(|rejection| to_status(&rejection))?;
        let id = match request.id.is_empty() {
            true => None,
            false => Some(digest(&request.id).map_err(|rejection| to_status(&rejection))?),
        };
        let images = member.store.read(|state| list::list(state, id));
        Ok(Response::new(v1::ListImagesResponse { images }))
    }
}

/// The service for blobs.
#[derive(Debug)]
pub(crate) struct UploadsService {
    context: Context,
}

impl UploadsService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl Uploads for UploadsService {
    type UploadStream = Pin<Box<dyn Stream<Item = Result<v1::UploadOutput, Status>> + Send>>;

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadInput>>,
    ) -> Result<Response<Self::UploadStream>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let outputs = upload::begin(member, request.into_inner()).await;
        let outputs = outputs.map_err(|rejection| to_status(&rejection))?;
        Ok(Response::new(Box::pin(outputs)))
    }
}
