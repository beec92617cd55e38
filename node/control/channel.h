// A short-lived gRPC connection to a coordinator for a few calls; a worker's session is separate.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "proto/link/grpc_tls.h"

namespace hearth::node {

std::shared_ptr<grpc::Channel> control_channel(const std::string& address,
                                               const TlsIdentity& identity, AdmitKey admit);

}  // namespace hearth::node
