// A connection to a coordinator for a few questions, as the workers' long sessions are not.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "proto/link/grpc_tls.h"
#include "proto/roster.h"

namespace hearth::node {

std::shared_ptr<grpc::Channel> control_channel(const std::string& address,
                                               const TlsIdentity& identity, AdmitKey admit);

// Only a coordinator of the roster.
AdmitKey admit_coordinator(std::shared_ptr<const RosterBook> roster);

}  // namespace hearth::node
