//! Asks an authority when it wants a certificate to be renewed (RFC 9773).

use instant_acme::{Account, CertificateIdentifier, Error};
use jaco_types::{Millis, RenewalWindow, Timestamp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// When the authority wants a certificate, given as PEM, to be renewed, and how long that answer is good for. A window
/// that ends before it begins is none (RFC 9773, section 4.2).
///
/// # Errors
/// If it does not say so; `Unsupported` if it never will for this certificate.
pub(crate) async fn ask_window(
    account: &Account,
    chain: &str,
) -> Result<(Option<RenewalWindow>, Millis), Error> {
    let leaf = CertificateDer::from_pem_slice(chain.as_bytes());
    let leaf = leaf.map_err(|_| Error::Unsupported("a certificate that cannot be read"))?;
    let id = CertificateIdentifier::try_from(&leaf).map_err(|_| {
        Error::Unsupported("a certificate without the key identifier of its issuer")
    })?;
    let (info, wait) = account.renewal_info(&id).await?;
    let start = moment(info.suggested_window.start.unix_timestamp());
    let end = moment(info.suggested_window.end.unix_timestamp());
    Ok((RenewalWindow::new(start, end), Millis::from_secs(wait.as_secs())))
}

fn moment(secs: i64) -> Timestamp {
    Timestamp(u64::try_from(secs).unwrap_or(0).saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use bytes::Bytes;
    use http::{Request, Response};
    use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
    use rcgen::{CertificateParams, Issuer, KeyPair};
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    /// An authority that has one directory and one answer to every question about a renewal.
    struct Scripted {
        directory: &'static str,
        answer: &'static str,
    }

    impl HttpClient for Scripted {
        fn request(
            &self,
            request: Request<BodyWrapper<Bytes>>,
        ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
            let is_question = request.uri().path().starts_with("/renewal/");
            let body = if is_question { self.answer } else { self.directory };
            let body = http_body_util::Full::new(Bytes::from_static(body.as_bytes()));
            let response = Response::builder().header("retry-after", "21600").body(body);
            Box::pin(async move { Ok(response.unwrap().into()) })
        }
    }

    async fn ask(scripted: Scripted) -> Result<(Option<RenewalWindow>, Millis), Error> {
        let key = KeyPair::generate().unwrap();
        let der = PrivatePkcs8KeyDer::from(key.serialize_der());
        let builder = Account::builder_with_http(Box::new(scripted));
        let account = builder.from_parts("account".into(), der, "https://a.example/".into());
        ask_window(&account.await.unwrap(), &leaf(&key)).await
    }

    fn leaf(key: &KeyPair) -> String {
        let authority = CertificateParams::new([]).unwrap();
        let mut params = CertificateParams::new(["shop.example".to_owned()]).unwrap();
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::new(authority, KeyPair::generate().unwrap());
        params.signed_by(key, &issuer).unwrap().pem()
    }

    #[tokio::test]
    async fn the_window_is_what_the_authority_says() {
        let directory = r#"{"newNonce":"n","newAccount":"a","newOrder":"o","renewalInfo":"https://a.example/renewal"}"#;
        let answer =
            r#"{"suggestedWindow":{"start":"2026-11-02T04:00:00Z","end":"2026-11-03T04:00:00Z"}}"#;
        let (window, wait) = ask(Scripted { directory, answer }).await.unwrap();
        let start = Timestamp(1_793_592_000_000);
        assert_eq!(window, RenewalWindow::new(start, Timestamp(start.0 + 86_400_000)));
        // The wait is counted from when the answer was read.
        assert!(Millis::from_secs(21_598) <= wait && wait <= Millis::from_secs(21_600), "{wait}");
    }

    #[tokio::test]
    async fn an_authority_without_windows_is_told_from_one_that_failed() {
        let directory = r#"{"newNonce":"n","newAccount":"a","newOrder":"o"}"#;
        let outcome = ask(Scripted { directory, answer: "" }).await;
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
    }
}
