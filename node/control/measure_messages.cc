#include "node/control/measure_messages.h"

#include "proto/frame.h"

namespace hearth::node {

control::v1::WorkerMessage measured_message(const Measured& measured,
                                            std::uint64_t kv_budget_bytes) {
  const StageRate& rate = measured.rate;
  control::v1::WorkerMessage message;
  auto& body = *message.mutable_measured();
  body.set_batch_rows(kRateRows);
  body.set_step_seconds(rate.step_seconds);
  body.set_layer_seconds(rate.layer.one);
  body.set_layer_batch_seconds(rate.layer.batch);
  body.set_head_seconds(rate.head.one);
  body.set_head_batch_seconds(rate.head.batch);
  body.set_memory_bytes(measured.memory_bytes);
  body.set_kv_budget_bytes(kv_budget_bytes);
  return message;
}

control::v1::WorkerMessage probed_message(const std::string& node, const Result<LinkRate>& rate) {
  control::v1::WorkerMessage message;
  auto& body = *message.mutable_probed();
  body.set_node(node);
  if (rate.ok()) {
    body.set_round_trip_seconds(rate->round_trip_seconds);
    body.set_to_bytes_per_second(rate->to_bytes_per_second);
    body.set_from_bytes_per_second(rate->from_bytes_per_second);
  } else {
    body.set_error(decode_refused(as_bytes(rate.error().message)));
  }
  return message;
}

}  // namespace hearth::node
