//! InitProducerId (key 22), versions 0-5: an id for an idempotent producer.
//!
//! Behaviour:
//! - Each answer has an id that was never given before. The controller gives out blocks of them, written to the
//!   metadata log first; what is left of a block when the broker stops is lost.
//! - A producer without transactions that sends the id and epoch it has (KIP-360) gets a new id too, as from Kafka.
//!   An id without an epoch, or the other way round, is INVALID_REQUEST.
//!
//! Skipped: transactions. A transactional id is UNSUPPORTED_VERSION, on which a producer gives up at once; an empty one
//! is INVALID_REQUEST.

use std::sync::Arc;

use metadata::ProducerIdBlock;
use platform::Allowed;
use wire::ErrorCode;
use wire::api::allocate_producer_ids::AllocateProducerIdsRequest;
use wire::api::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::RequestContext;
use crate::Broker;
use crate::controller::ControllerError;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    match init(broker, context, &request).await {
        Ok(producer_id) => InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() },
        Err(error_code) => InitProducerIdResponse { error_code, producer_epoch: -1, ..Default::default() },
    }
}

async fn init(broker: &Broker, context: &RequestContext, request: &InitProducerIdRequest) -> Result<i64, ErrorCode> {
    check(request)?;
    let id = broker.producer_ids.next(async || allocate(broker).await).await;
    id.map_err(|error| {
        let address = context.client_address;
        if let Some(Allowed { left_out }) = broker.log_limit.allow(address) {
            tracing::warn!(%address, reason = %error, left_out, "no producer ids are to be had");
        }
        // The client tries again.
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
    })
}

async fn allocate(broker: &Broker) -> Result<ProducerIdBlock, ControllerError> {
    let broker_epoch = broker.metadata.load().broker(broker.node_id).map_or(-1, |own| own.epoch);
    let request = AllocateProducerIdsRequest { broker_id: broker.node_id, broker_epoch };
    let block = broker.controller.ask(request).await?;
    match block.error_code {
        ErrorCode::NONE => Ok(ProducerIdBlock { first: block.producer_id_start, count: block.producer_id_len.into() }),
        code => Err(ControllerError::Internal(format!("producer ids are refused: {code}").into())),
    }
}

fn check(request: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    match request.transactional_id.as_deref() {
        Some("") => return Err(ErrorCode::INVALID_REQUEST),
        Some(_) => return Err(ErrorCode::UNSUPPORTED_VERSION),
        None => {}
    }
    if (request.producer_id == -1) != (request.producer_epoch == -1) {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(transactional_id: Option<&str>, producer_id: i64, producer_epoch: i16) -> InitProducerIdRequest {
        InitProducerIdRequest {
            transactional_id: transactional_id.map(str::to_owned),
            transaction_timeout_ms: 1000,
            producer_id,
            producer_epoch,
        }
    }

    /// But for transactions as Kafka 4.3.1 answers.
    #[test]
    fn an_id_and_an_epoch_come_together() {
        assert_eq!(check(&request(None, -1, -1)), Ok(()));
        assert_eq!(check(&request(None, 5, 0)), Ok(()));
        assert_eq!(check(&request(None, -5, -7)), Ok(()));
        assert_eq!(check(&request(None, 5, -1)), Err(ErrorCode::INVALID_REQUEST));
        assert_eq!(check(&request(None, -1, 3)), Err(ErrorCode::INVALID_REQUEST));
        assert_eq!(check(&request(Some(""), -1, -1)), Err(ErrorCode::INVALID_REQUEST));
        assert_eq!(check(&request(Some("t"), -1, -1)), Err(ErrorCode::UNSUPPORTED_VERSION));
    }
}
