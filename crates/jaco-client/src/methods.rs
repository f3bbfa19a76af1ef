//! A method of [`Client`] for each rpc with one request, generated from what the rpc declares in
//! `proto/jaco/v1`: its comment is the method's documentation.

use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_proto::v1::images_client::ImagesClient;
use jaco_proto::v1::planner_client::PlannerClient;
use jaco_proto::v1::query_client::QueryClient;
use jaco_proto::v1::volumes_client::VolumesClient;
use tonic::{Request, Response, Status, Streaming};

use crate::call::Call;
use crate::client::{Client, RESPONSE_BYTES_MAX};
use crate::error::ClientError;
use crate::retry::Patience;
use crate::stream::Answers;

macro_rules! methods {
    ($(
        $service:ident $client:ident $server:ident {
            $($(#[$doc:meta])* $name:ident($request:ident) -> $response:ident, $patience:ident;)*
        } {
            $($(#[$streams:meta])* $stream:ident($asked:ident) -> $item:ident, $kind:ident;)*
        }
    )*) => {
        impl Client {$(
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The refusal of the cluster, or why no node answered.
                pub async fn $name(
                    &self,
                    request: v1::$request,
                ) -> Result<v1::$response, ClientError> {
                    let send = |channel, request: Request<v1::$request>| async move {
                        let mut client = $client::new(channel)
                            .max_decoding_message_size(RESPONSE_BYTES_MAX);
                        client.$name(request).await
                    };
                    let call = Call { client: self, patience: Patience::$patience, send };
                    Box::pin(call.run(request)).await.map(|(_, response)| response)
                }
            )*
            $(
                $(#[$streams])*
                ///
                /// The deadline is for the beginning of the stream; the stream itself has none.
                ///
                /// # Errors
                /// The refusal of the cluster, or why no node answered.
                pub async fn $stream(
                    &self,
                    request: v1::$asked,
                ) -> Result<Answers<v1::$item>, ClientError> {
                    let send = |channel, request: Request<v1::$asked>| async move {
                        let mut client = $client::new(channel)
                            .max_decoding_message_size(RESPONSE_BYTES_MAX);
                        let answer: Result<Response<Streaming<v1::$item>>, Status> =
                            client.$stream(request).await;
                        answer
                    };
                    let call = Call { client: self, patience: Patience::SHORT, send };
                    let (endpoint, inner) = Box::pin(call.run(request)).await?;
                    Ok(Answers { endpoint, inner })
                }
            )*
        )*}
    };
}

jaco_proto::client_rpcs!(methods);
