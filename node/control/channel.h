// A connection to a coordinator for a few questions, as the workers' long sessions are not.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "proto/link/grpc_tls.h"

namespace hearth::node {

std::shared_ptr<grpc::Channel> control_channel(const std::string& address,
                                               const TlsIdentity& identity, AdmitKey admit);

}  // namespace hearth::node
