// Adapters of a software machine: queue pairs that answer: what others write, send and read here.
#include <algorithm>
#include <utility>

#include "fabric/soft_nic.hpp"

namespace nobounce::fabric {

namespace verbs = system::verbs;

namespace {

bool is_send(WireHeader::Kind kind) {
  return kind == WireHeader::Kind::send || kind == WireHeader::Kind::send_with_imm;
}

bool has_imm(WireHeader::Kind kind) {
  return kind == WireHeader::Kind::send_with_imm || kind == WireHeader::Kind::write_with_imm;
}

bool takes_receive(WireHeader::Kind kind) {
  return is_send(kind) || kind == WireHeader::Kind::write_with_imm;
}

std::uint64_t room_in(const NicReceive& receive) {
  std::uint64_t room = 0;
  for (const verbs::ibv_sge& piece : receive.pieces) room += piece.length;
  return room;
}

}  // namespace

void SoftNics::reply(const NicPair& pair, WireHeader::Kind kind, const WireHeader& request,
                     int status) {
  WirePacket packet;
  packet.header.kind = kind;
  packet.header.status = static_cast<std::uint8_t>(status);
  packet.header.source_pair = pair.number;
  packet.header.target_pair = request.source_pair;
  packet.header.source_port = port_of(pair.nic);
  packet.header.target_port = request.source_port;
  packet.header.message = request.message;
  packet.header.last = 1;
  put_on_wire(std::move(packet));
}

void SoftNics::refuse(NicPair& pair, const WireHeader& request, int status) {
  reply(pair, WireHeader::Kind::refuse, request, status);
  fail(pair);
}

void SoftNics::answer(NicPair& pair, WirePacket packet) {
  // Requests are answered in order: what comes behind reads waits for them.
  const bool reads = packet.header.kind == WireHeader::Kind::read_request;
  if (pair.inbox.empty() && (reads || pair.answers.empty())) {
    take(pair, packet);
  } else {
    pair.inbox.push_back(std::move(packet));
  }
}

void SoftNics::take(NicPair& pair, const WirePacket& packet) {
  const WireHeader& header = packet.header;
  const auto behind = static_cast<std::int32_t>(header.message - pair.expected_message);
  if (behind > 0) return;  // something before it was lost: its sender will repeat both
  if (behind < 0) {        // done already, and the answer was lost
    if (header.kind == WireHeader::Kind::read_request) {
      begin_read(pair, packet);
    } else if (header.last != 0) {
      reply(pair, WireHeader::Kind::acknowledge, header, 0);
    }
    return;
  }
  if (header.kind == WireHeader::Kind::read_request) {
    ++pair.expected_message;
    begin_read(pair, packet);
    return;
  }
  if (header.offset == 0) pair.expected_offset = 0;
  if (header.offset != pair.expected_offset) return;
  if (takes_receive(header.kind) && pair.receives.empty()) {
    pair.expected_offset = 0;
    reply(pair, WireHeader::Kind::not_ready, header, 0);
    return;
  }
  const Landing landing = land(pair, packet);
  if (landing.told != verbs::wc_success) {
    if (landing.own != verbs::wc_success) {
      verbs::ibv_wc completion{};
      completion.wr_id = pair.receives.front().id;
      completion.status = landing.own;
      completion.opcode = verbs::wc_op_recv;
      pair.receives.pop_front();
      complete(*pair.receive_queue, pair, completion);
    }
    refuse(pair, header, landing.told);
    return;
  }
  pair.expected_offset += packet.payload.bytes().size();
  if (header.last == 0) return;
  ++pair.expected_message;
  pair.expected_offset = 0;
  if (takes_receive(header.kind)) {
    verbs::ibv_wc completion{};
    completion.wr_id = pair.receives.front().id;
    completion.opcode = is_send(header.kind) ? verbs::wc_op_recv : verbs::wc_op_recv_rdma_with_imm;
    completion.byte_len = static_cast<std::uint32_t>(header.total_bytes);
    completion.imm_data = header.imm_data;
    completion.wc_flags = has_imm(header.kind) ? verbs::wc_with_imm : 0;
    completion.src_qp = header.source_pair;
    pair.receives.pop_front();
    complete(*pair.receive_queue, pair, completion);
  }
  reply(pair, WireHeader::Kind::acknowledge, header, 0);
}

/// Puts a packet where it belongs; what its sender is told where it may not.
SoftNics::Landing SoftNics::land(NicPair& pair, const WirePacket& packet) {
  const WireHeader& header = packet.header;
  const std::span<const std::byte> payload = packet.payload.bytes();
  if (is_send(header.kind)) {
    const NicReceive& receive = pair.receives.front();
    if (header.total_bytes > room_in(receive)) {
      return {verbs::wc_remote_invalid_request, verbs::wc_local_length_error};
    }
    const int status = scatter(pair, receive.pieces, header.offset, payload, header.wire_address);
    if (status == verbs::wc_success) return {};
    return {verbs::wc_remote_operation_error, status};
  }
  const bool allowed = (pair.attributes.qp_access_flags & verbs::access_remote_write) != 0;
  if (!allowed) return {.told = verbs::wc_remote_invalid_request};
  if (header.total_bytes == 0) return {};
  const int access = is(Mutant::rdma_access_ignored) ? 0 : verbs::access_remote_write;
  const NicRegion* region = reach(pair, Side::remote, header.key, header.address,
                                  std::max<std::uint64_t>(header.total_bytes, 1), access);
  if (region == nullptr) return {.told = verbs::wc_remote_access_error};
  const BusAddress at = region->bus.plus(header.address - region->address + header.offset);
  const Carried carried = parts_.bus.receive_packet(pair.nic, payload, header.wire_address, at);
  // A posted write that is lost on the bus is lost in silence.
  if (carried.ok() || carried.outcome == BusOutcome::lost) return {};
  return {.told = verbs::wc_remote_operation_error};
}

void SoftNics::begin_read(NicPair& pair, const WirePacket& packet) {
  const WireHeader& header = packet.header;
  // A repeated request replaces the answer that it asks for again.
  pair.answers.erase(std::remove_if(pair.answers.begin(), pair.answers.end(),
                                    [&header](const NicPair::Answer& answer) {
                                      return answer.request.message == header.message;
                                    }),
                     pair.answers.end());
  const bool allowed = (pair.attributes.qp_access_flags & verbs::access_remote_read) != 0;
  if (!allowed || pair.answers.size() >= pair.attributes.max_dest_rd_atomic) {
    refuse(pair, header, verbs::wc_remote_invalid_request);
    return;
  }
  const int access = is(Mutant::rdma_access_ignored) ? 0 : verbs::access_remote_read;
  if (header.total_bytes > 0 && reach(pair, Side::remote, header.key, header.address,
                                      header.total_bytes, access) == nullptr) {
    refuse(pair, header, verbs::wc_remote_access_error);
    return;
  }
  pair.answers.push_back({header, 0});
}

bool SoftNics::send_answers(NicPair& pair) {
  bool moved = false;
  while (!pair.answers.empty()) {
    NicPair::Answer& answer = pair.answers.front();
    const WireHeader request = answer.request;
    if (!wire_.has_room(request.source_port)) return moved;
    const std::uint64_t length = std::min<std::uint64_t>(SoftWire::payload_max_bytes,
                                                         request.total_bytes - answer.sent_bytes);
    WirePacket packet;
    packet.header.kind = WireHeader::Kind::read_response;
    packet.header.source_pair = pair.number;
    packet.header.target_pair = request.source_pair;
    packet.header.source_port = port_of(pair.nic);
    packet.header.target_port = request.source_port;
    packet.header.message = request.message;
    packet.header.offset = answer.sent_bytes;
    packet.header.total_bytes = request.total_bytes;
    packet.header.wire_address = next_wire_address(length);
    packet.payload = WirePayload(static_cast<std::size_t>(length));
    if (length > 0) {
      // Looked up for each packet: a region that goes takes what is left of the answer with it.
      const NicRegion* region =
          reach(pair, Side::remote, request.key, request.address, request.total_bytes, 0);
      if (region == nullptr) {
        refuse(pair, request, verbs::wc_remote_access_error);
        return true;
      }
      const BusAddress at = region->bus.plus(request.address - region->address + answer.sent_bytes);
      const Carried carried =
          parts_.bus.send_packet(pair.nic, at, packet.payload.bytes(), packet.header.wire_address);
      if (!carried.ok()) {
        refuse(pair, request, verbs::wc_remote_operation_error);
        return true;
      }
    }
    answer.sent_bytes += length;
    const bool last = answer.sent_bytes == request.total_bytes;
    packet.header.last = last ? 1 : 0;
    if (last) pair.answers.pop_front();
    put_on_wire(std::move(packet));
    moved = true;
  }
  return moved;
}

}  // namespace nobounce::fabric
