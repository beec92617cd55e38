// gRPC's own TLS with our certificates (proto/link/tls.h): TLS 1.3 alone, a certificate from both
// sides, and a verifier that looks at nothing but the Ed25519 key. For the control adapters.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string_view>

#include "base/crypto.h"
#include "base/result.h"
#include "proto/link/tls.h"

namespace hearth {

// Called by threads of gRPC, after the peer has proved that it holds the key and before one byte of
// it is read as anything else. The message of a refusal is for our own log.
using AdmitKey = std::function<Status(const PublicKey& key)>;

std::shared_ptr<grpc::ChannelCredentials> tls_channel_credentials(const TlsIdentity& identity,
                                                                  AdmitKey admit);
std::shared_ptr<grpc::ServerCredentials> tls_server_credentials(const TlsIdentity& identity,
                                                                AdmitKey admit);

// Hears why a handshake failed, on a thread of gRPC, which says it nowhere else. Set before the
// first credentials are made, once a process; GRPC_VERBOSITY brings back gRPC's own log instead.
void on_failed_handshake(void (*heard)(std::string_view why));

// Who is at the far end of an authenticated connection.
Result<PublicKey> peer_key(const grpc::AuthContext& context);

}  // namespace hearth
