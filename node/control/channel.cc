#include "node/control/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>

#include <utility>

#include "base/limits.h"

namespace hearth::node {

std::shared_ptr<grpc::Channel> control_channel(const std::string& address,
                                               const TlsIdentity& identity, AdmitKey admit) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limits::kControlMessageBytes));
  return grpc::CreateCustomChannel(address, tls_channel_credentials(identity, std::move(admit)),
                                   arguments);
}

}  // namespace hearth::node
