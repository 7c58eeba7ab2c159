//! `#[gpu_only]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn};

pub fn expand(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    if !arguments.is_empty() {
        return Err(Error::new_spanned(arguments, "`#[gpu_only]` takes no arguments"));
    }
    let ItemFn { attrs, vis, sig, block } = syn::parse2(item)?;
    let message =
        format!("`{}` runs only on the GPU, and this is a program for the host", sig.ident);
    let mut host_sig = sig.clone();
    host_sig.abi = None;
    Ok(quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(unused)]
        #(#attrs)*
        #vis #host_sig {
            ::core::panic!(#message)
        }

        #[cfg(target_arch = "nvptx64")]
        #(#attrs)*
        #vis #sig #block
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_body_panics_with_the_name() {
        let out = expand(
            quote!(),
            quote!(
                pub unsafe extern "C" fn f(x: u32) -> u32 {
                    x
                }
            ),
        )
        .unwrap();
        let text = out.to_string();
        assert!(text.contains("`f` runs only on the GPU"), "{text}");
        assert_eq!(
            text.matches("extern \"C\"").count(),
            1,
            "only the device keeps the ABI: {text}"
        );
    }

    #[test]
    fn arguments_are_refused() {
        let error = expand(
            quote!(x),
            quote!(
                fn f() {}
            ),
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "`#[gpu_only]` takes no arguments");
    }
}
