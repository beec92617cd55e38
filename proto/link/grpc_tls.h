// gRPC's own TLS with our certificates (proto/link/tls.h), for the control adapters: only TLS 1.3,
// a certificate from both sides, and a verifier that checks only the Ed25519 key.
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

// gRPC's threads call it after the peer has proved that it holds the key and before they read its
// first request. The message of a refusal is for our own log.
using AdmitKey = std::function<Status(const PublicKey& key)>;

std::shared_ptr<grpc::ChannelCredentials> tls_channel_credentials(const TlsIdentity& identity,
                                                                  AdmitKey admit);
std::shared_ptr<grpc::ServerCredentials> tls_server_credentials(const TlsIdentity& identity,
                                                                AdmitKey admit);

// `heard` receives the reason of a failed handshake, on a thread of gRPC, which reports it only in
// its log. Set it once a process, before the first credentials are made and before threads start:
// it changes the environment. With GRPC_VERBOSITY set, gRPC writes its own log and `heard` is never
// called.
void on_failed_handshake(void (*heard)(std::string_view why));

// The node key at the far end of an authenticated connection.
Result<PublicKey> peer_key(const grpc::AuthContext& context);

}  // namespace hearth
