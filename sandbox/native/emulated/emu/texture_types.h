// The types of textures and of CUDA arrays, with the runtime's own values.
#pragma once

#include <string.h>

#include "memory.h"

enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned = 0,
    cudaChannelFormatKindUnsigned = 1,
    cudaChannelFormatKindFloat = 2,
    cudaChannelFormatKindNone = 3,
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

typedef struct cudaArray* cudaArray_t;
typedef const struct cudaArray* cudaArray_const_t;
#define cudaArrayDefault 0x00
#define cudaArraySurfaceLoadStore 0x02

enum cudaResourceType { cudaResourceTypeArray = 0, cudaResourceTypeLinear = 2, cudaResourceTypePitch2D = 3 };
struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct {
            cudaArray_t array;
        } array;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            size_t width, height, pitchInBytes;
        } pitch2D;
        struct {
            int reserved[32];
        } reserved;
    } res;
    unsigned int flags;
};
struct cudaResourceViewDesc;

struct cudaPitchedPtr {
    void* ptr;
    size_t pitch, xsize, ysize;
};
struct cudaExtent {
    size_t width, height, depth;
};
struct cudaPos {
    size_t x, y, z;
};
struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    cudaMemcpyKind kind;
};
inline cudaPitchedPtr make_cudaPitchedPtr(void* address, size_t pitch, size_t xsize, size_t ysize) { return {address, pitch, xsize, ysize}; }
inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) { return {width, height, depth}; }
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }

inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) { return {x, y, z, w, f}; }

namespace emu EMU_HIDDEN {

// How a type is a texture's: `type` where it is one, with its channels and what they are made of.
template <class T>
struct TextureValue {
    static cudaChannelFormatDesc desc() { return {0, 0, 0, 0, cudaChannelFormatKindNone}; }
};

// A fetch gives four words; integers narrower than those are cut, as the fetch instruction's users do.
template <class Channel>
EMU_INLINE Channel channel_of(uint32_t word) {
    if constexpr (std::is_same_v<Channel, float>) {
        float value;
        memcpy(&value, &word, sizeof value);
        return value;
    } else {
        return static_cast<Channel>(word);
    }
}

template <class Channel>
inline constexpr cudaChannelFormatKind kind_of = std::is_same_v<Channel, float>  ? cudaChannelFormatKindFloat
                                                 : std::is_signed_v<Channel> ? cudaChannelFormatKindSigned
                                                                             : cudaChannelFormatKindUnsigned;

#define EMU_TEXTURE_VALUE(T, Channel, x, y, z, w, ...)                                                                 \
    template <>                                                                                                        \
    struct TextureValue<T> {                                                                                           \
        using type = void;                                                                                             \
        static EMU_INLINE T from(const uint32_t* words) { return {__VA_ARGS__}; }                                                 \
        static cudaChannelFormatDesc desc() {                                                                          \
            constexpr int bits = 8 * sizeof(Channel);                                                                  \
            return {x * bits, y * bits, z * bits, w * bits, kind_of<Channel>};                                         \
        }                                                                                                              \
    };
#define EMU_WORD(Channel, index) channel_of<Channel>(words[index])
#define EMU_TEXTURE_VALUES(Channel, name)                                                                              \
    EMU_TEXTURE_VALUE(Channel, Channel, 1, 0, 0, 0, EMU_WORD(Channel, 0))                                              \
    EMU_TEXTURE_VALUE(name##1, Channel, 1, 0, 0, 0, EMU_WORD(Channel, 0))                                              \
    EMU_TEXTURE_VALUE(name##2, Channel, 1, 1, 0, 0, EMU_WORD(Channel, 0), EMU_WORD(Channel, 1))                        \
    EMU_TEXTURE_VALUE(name##4, Channel, 1, 1, 1, 1, EMU_WORD(Channel, 0), EMU_WORD(Channel, 1), EMU_WORD(Channel, 2), EMU_WORD(Channel, 3))
EMU_TEXTURE_VALUES(signed char, char)
EMU_TEXTURE_VALUES(unsigned char, uchar)
EMU_TEXTURE_VALUES(short, short)
EMU_TEXTURE_VALUES(unsigned short, ushort)
EMU_TEXTURE_VALUES(int, int)
EMU_TEXTURE_VALUES(unsigned int, uint)
EMU_TEXTURE_VALUES(float, float)
EMU_TEXTURE_VALUE(char, char, 1, 0, 0, 0, EMU_WORD(char, 0))
#undef EMU_TEXTURE_VALUES
#undef EMU_WORD
#undef EMU_TEXTURE_VALUE

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

}  // namespace emu

template <class T>
cudaChannelFormatDesc cudaCreateChannelDesc() {
    return emu::TextureValue<T>::desc();
}
inline cudaChannelFormatDesc cudaCreateChannelDescHalf() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf1() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf2() { return {16, 16, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf4() { return {16, 16, 16, 16, cudaChannelFormatKindFloat}; }
