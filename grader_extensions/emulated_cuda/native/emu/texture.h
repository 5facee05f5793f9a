// Texture objects over linear memory.  A fetch asks for texels by number, and reads nothing but those that the resource has.
#pragma once

#include "memory.h"
#include "short_float_bits.h"

// The types of textures, with the runtime's own values.
enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned, cudaChannelFormatKindUnsigned, cudaChannelFormatKindFloat, cudaChannelFormatKindNone,
};
struct cudaChannelFormatDesc {
    int x, y, z, w;
    cudaChannelFormatKind f;
};

enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder };
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned int maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
typedef unsigned long long cudaTextureObject_t;

enum cudaResourceType { cudaResourceTypeLinear = 2 };
struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            size_t sizeInBytes;
        } linear;
        struct {
            int reserved[32];
        } reserved;
    } res;
    unsigned int flags;
};
struct cudaResourceViewDesc;

inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) { return {x, y, z, w, f}; }

namespace emu EMU_HIDDEN {

// A type as that of a texel: one, two or four channels of float or of an integer of up to 32 bits.
template <class T>
struct TextureValue {
    static auto first_channel() {
        if constexpr (requires(T value) { value.x; }) return T{}.x;
        else return T{};
    }
    using Channel = decltype(first_channel());
    static constexpr int channels = sizeof(T) / sizeof(Channel);
    static constexpr bool is_float = std::is_same_v<Channel, float>;
    static constexpr bool exists = (is_float || (std::is_integral_v<Channel> && sizeof(Channel) <= 4)) && channels != 3;

    static cudaChannelFormatDesc desc() {
        constexpr int bits = exists ? 8 * sizeof(Channel) : 0, second = channels > 1 ? bits : 0, fourth = channels > 2 ? bits : 0;
        constexpr auto integers = std::is_signed_v<Channel> ? cudaChannelFormatKindSigned : cudaChannelFormatKindUnsigned;
        return {bits, second, fourth, fourth, !exists ? cudaChannelFormatKindNone : is_float ? cudaChannelFormatKindFloat : integers};
    }
    // Integers narrower than a word are cut, as the fetch instruction's users do.
    static EMU_INLINE T from(const uint32_t* words) {
        Channel cut[channels];
        for (int i = 0; i < channels; ++i) {
            if constexpr (is_float) cut[i] = __builtin_bit_cast(float, words[i]);
            else cut[i] = static_cast<Channel>(words[i]);
        }
        return __builtin_bit_cast(T, cut);
    }
};

// A descriptor as a size of texels: one, two or four channels, all of 8, 16 or 32 bits.
struct TexelFormat {
    unsigned channels, bits;
    cudaChannelFormatKind kind;

    unsigned bytes() const { return channels * bits / 8; }
    explicit operator bool() const { return channels != 0; }
};

inline TexelFormat texel_format(const cudaChannelFormatDesc& desc) {
    const int sizes[4] = {desc.x, desc.y, desc.z, desc.w};
    unsigned channels = 0;
    while (channels < 4 && sizes[channels] != 0) ++channels;
    bool good = channels == 1 || channels == 2 || channels == 4;
    for (unsigned i = 0; i < 4; ++i) good &= sizes[i] == (i < channels ? desc.x : 0);
    good &= desc.x == 8 || desc.x == 16 || desc.x == 32;
    bool floats = desc.f == cudaChannelFormatKindFloat && desc.x != 8;
    good &= desc.f == cudaChannelFormatKindSigned || desc.f == cudaChannelFormatKindUnsigned || floats;
    return good ? TexelFormat{channels, static_cast<unsigned>(desc.x), desc.f} : TexelFormat{0, 0, cudaChannelFormatKindNone};
}

// Those of compute capability 9.0; the limit is in texels.
inline constexpr size_t max_texture_1d_linear = size_t{1} << 28, texture_alignment = 512, texture_pitch_alignment = 32;

struct Texture {
    uint32_t next_unused;  // the place that was given up before this one, and one more; 0: none
    uint32_t generation;   // odd while the object lives; part of the handle, so that one which was destroyed stays invalid
    cudaResourceDesc resource;
    cudaTextureDesc how;
    TexelFormat format;
    size_t texels;
};

// As many as a GPU has headers for.  They never move, so that a kernel can look one up while the host makes others.
inline constexpr uint32_t most_textures = 1u << 20;
inline Texture* textures[most_textures];
inline uint32_t texture_count = 0, last_unused_texture = 0;
inline pthread_mutex_t textures_mutex = PTHREAD_MUTEX_INITIALIZER;

// The living object of a handle; null for any other number.
EMU_UNCHECKED Texture* texture_of(cudaTextureObject_t handle) {
    auto place = static_cast<uint32_t>(handle) - 1, generation = static_cast<uint32_t>(handle >> 32);
    if (place >= most_textures || generation % 2 == 0) return nullptr;
    Texture* texture = __atomic_load_n(&textures[place], __ATOMIC_ACQUIRE);
    return texture && __atomic_load_n(&texture->generation, __ATOMIC_ACQUIRE) == generation ? texture : nullptr;
}

// The device's own allocations begin as those of a GPU do; of other memory only what every allocator gives can be asked.
inline bool is_texture_address(const void* address) {
    auto at = reinterpret_cast<uintptr_t>(address);
    bool aligned = at % 16 == 0;
    pthread_mutex_lock(&allocations_mutex);
    for (const Allocation& entry : allocations)
        if (address >= entry.address && address < entry.address + entry.bytes)
            aligned = (at - reinterpret_cast<uintptr_t>(entry.address)) % texture_alignment == 0;
    pthread_mutex_unlock(&allocations_mutex);
    return address && aligned;
}

inline cudaError_t describe_texture(Texture& texture, const cudaResourceDesc& resource, const cudaTextureDesc& how) {
    texture.resource = resource;
    texture.how = how;
    const auto& linear = resource.res.linear;
    if (resource.flags || resource.resType != cudaResourceTypeLinear) return cudaErrorInvalidValue;
    texture.format = texel_format(linear.desc);
    if (!texture.format || !is_texture_address(linear.devPtr)) return cudaErrorInvalidValue;
    texture.texels = linear.sizeInBytes / texture.format.bytes();
    if (texture.texels > max_texture_1d_linear) return cudaErrorInvalidValue;
    for (cudaTextureAddressMode mode : how.addressMode)
        if (mode < cudaAddressModeWrap || mode > cudaAddressModeBorder) return cudaErrorInvalidValue;
    if (how.filterMode < cudaFilterModePoint || how.filterMode > cudaFilterModeLinear) return cudaErrorInvalidValue;
    if (how.readMode < cudaReadModeElementType || how.readMode > cudaReadModeNormalizedFloat) return cudaErrorInvalidValue;
    return how.sRGB ? cudaErrorNotSupported : cudaSuccess;
}

inline cudaError_t make_texture(cudaTextureObject_t* out, const Texture& described) {
    pthread_mutex_lock(&textures_mutex);
    uint32_t place = last_unused_texture ? last_unused_texture - 1 : texture_count;
    if (place == texture_count && place < most_textures) __atomic_store_n(&textures[texture_count++], new Texture{}, __ATOMIC_RELEASE);
    Texture* texture = place < most_textures ? textures[place] : nullptr;
    if (texture) {
        last_unused_texture = texture->next_unused;
        uint32_t generation = texture->generation + 1;
        *texture = described;
        __atomic_store_n(&texture->generation, generation, __ATOMIC_RELEASE);
        *out = uint64_t{generation} << 32 | (place + 1);
    }
    pthread_mutex_unlock(&textures_mutex);
    return texture ? cudaSuccess : report(cudaErrorMemoryAllocation);
}

template <class Part>
cudaError_t read_texture(Part* out, cudaTextureObject_t handle, Part Texture::*part) {
    const Texture* found = texture_of(handle);
    if (!out || !found) return report(cudaErrorInvalidValue);
    *out = found->*part;
    return cudaSuccess;
}

}  // namespace emu

template <class T>
cudaChannelFormatDesc cudaCreateChannelDesc() { return emu::TextureValue<T>::desc(); }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf1() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf2() { return {16, 16, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf4() { return {16, 16, 16, 16, cudaChannelFormatKindFloat}; }

inline cudaError_t cudaCreateTextureObject(cudaTextureObject_t* out, const cudaResourceDesc* resource, const cudaTextureDesc* how,
                                           const cudaResourceViewDesc* view) {
    if (!out || !resource || !how) return emu::report(cudaErrorInvalidValue);
    emu::Texture described{};
    cudaError_t failed = view ? cudaErrorNotSupported : emu::describe_texture(described, *resource, *how);
    return failed == cudaSuccess ? emu::make_texture(out, described) : emu::report(failed);
}
inline cudaError_t cudaDestroyTextureObject(cudaTextureObject_t handle) {
    pthread_mutex_lock(&emu::textures_mutex);
    emu::Texture* found = emu::texture_of(handle);
    if (found) {
        __atomic_store_n(&found->generation, found->generation + 1, __ATOMIC_RELEASE);
        found->next_unused = emu::last_unused_texture;
        emu::last_unused_texture = static_cast<uint32_t>(handle);
    }
    pthread_mutex_unlock(&emu::textures_mutex);
    return found ? cudaSuccess : emu::report(cudaErrorInvalidValue);
}
inline cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* out, cudaTextureObject_t texture) {
    return emu::read_texture(out, texture, &emu::Texture::resource);
}
inline cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* out, cudaTextureObject_t texture) {
    return emu::read_texture(out, texture, &emu::Texture::how);
}

// The fetches of the CUDA Programming Guide ("Texture Fetching").
namespace emu EMU_HIDDEN {

// What a fetch gives: four words, of which a texture with fewer channels leaves the rest 0.
struct Texel {
    uint32_t words[4];
};

template <class Signed, class Unsigned>
EMU_UNCHECKED uint32_t texel_word(const char* address, const Texture& texture) {
    Unsigned bits;
    EMU_COPY(&bits, address, sizeof bits);
    bool is_signed = texture.format.kind == cudaChannelFormatKindSigned;
    auto number = static_cast<Signed>(bits);
    if (texture.how.readMode != cudaReadModeNormalizedFloat) return is_signed ? static_cast<uint32_t>(static_cast<int>(number)) : bits;
    float largest = is_signed ? std::numeric_limits<Signed>::max() : std::numeric_limits<Unsigned>::max();
    float value = (is_signed ? static_cast<float>(number) : static_cast<float>(bits)) / largest;
    return bit_cast<uint32_t>(value < -1 ? -1.0f : value);
}

EMU_OUTLINE Texel fetch_linear(cudaTextureObject_t handle, int index) {
    const Texture* texture = texture_of(handle);
    if (!texture) trap("a fetch through a value that is no texture object");
    Texel texel{};
    if (index < 0 || static_cast<size_t>(index) >= texture->texels) return texel;
    const TexelFormat& format = texture->format;
    const char* address = static_cast<const char*>(texture->resource.res.linear.devPtr) + static_cast<size_t>(index) * format.bytes();
    EMU_TELL(access_range(address, format.bytes(), __builtin_return_address(0), false));
    for (unsigned channel = 0; channel < format.channels; ++channel, address += format.bits / 8) {
        uint32_t& word = texel.words[channel];
        if (format.bits == 32) {
            EMU_COPY(&word, address, sizeof word);
        } else if (format.kind == cudaChannelFormatKindFloat) {
            uint16_t half;
            EMU_COPY(&half, address, sizeof half);
            word = bit_cast<uint32_t>(HalfFormat::to_float(half));
        } else {
            word = format.bits == 8 ? texel_word<int8_t, uint8_t>(address, *texture) : texel_word<int16_t, uint16_t>(address, *texture);
        }
    }
    return texel;
}

}  // namespace emu

template <class T>
    requires emu::TextureValue<T>::exists
EMU_INLINE T tex1Dfetch(cudaTextureObject_t texture, int x) { return emu::TextureValue<T>::from(emu::fetch_linear(texture, x).words); }
template <class T>
    requires emu::TextureValue<T>::exists
EMU_INLINE void tex1Dfetch(T* out, cudaTextureObject_t texture, int x) { *out = tex1Dfetch<T>(texture, x); }
