#include "node/control/hold_messages.h"

#include "base/limits.h"
#include "proto/address.h"
#include "proto/fixed_field.h"
#include "proto/frame.h"

namespace hearth::node {

void write_holding(const Holding& holding, control::v1::Holding& message) {
  message.mutable_layers()->set_begin(holding.layers.begin);
  message.mutable_layers()->set_end(holding.layers.end);
  message.set_done(holding.done);
  message.set_total(holding.total);
}

Result<HoldMessage> read_hold(const control::v1::Hold& message, std::uint32_t model_layers) {
  HoldMessage hold;
  hold.plan.layers = {message.layers().begin(), message.layers().end()};
  const LayerRange layers = hold.plan.layers;
  REQUIRE(layers.begin < layers.end && layers.end <= model_layers, "layers ", layers.begin, " to ",
          layers.end, " are not a range of the model, which has layers 0 to ", model_layers);
  hold.plan.why = decode_refused(as_bytes(message.why()));
  REQUIRE(message.model().empty() || read_field(message.model(), hold.model.bytes),
          "the id of the model has ", message.model().size(), " bytes");
  REQUIRE(static_cast<std::size_t>(message.holders_size()) <= limits::kHolders,
          message.holders_size(), " holders; the limit is ", limits::kHolders);
  for (const auto& each : message.holders()) {
    TRY_VOID(check_node_name(each.node()));
    TRY_VOID(parse_address(each.address()));
    hold.plan.holders.push_back({each.node(), each.address()});
  }
  return hold;
}

}  // namespace hearth::node
